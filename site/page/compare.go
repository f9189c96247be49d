package page

import (
	"net/http"

	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

// comparePage has two jobs next to each other.
type comparePage struct {
	Query map[string]string // names the second job
	With  string            // the first one
	Table table
}

// compare shows a job next to the one that the parameter with names, or else next to the run before with its name.
func (p *Pages) compare(w http.ResponseWriter, r request) error {
	second, err := p.find(r)
	if err != nil {
		return err
	}
	query := sitereport.Query{Job: r.URL.Query().Get("with"), Cluster: second.Cluster}
	switch {
	case query.Job == "":
		before, err := p.runBefore(r, &second.Jobs[0])
		if err != nil {
			return err
		}
		query.Job, query.Generation = nameOfRow(before), before.Generation
	case !jobName.MatchString(query.Job):
		return errNoJobName
	}
	first, err := p.findJob(r, query)
	if err != nil {
		return err
	}
	page := comparePage{Query: map[string]string{"cluster": second.Cluster.Or(""), "id": second.Job, "generation": r.URL.Query().Get("generation")}, With: first.Job}
	page.Table, err = p.comparison(r, first, second)
	if err != nil {
		return err
	}
	return p.show(r, w, "compare", "Compare jobs", page)
}

// runBefore returns the newest job of the same name and user that began before.
func (p *Pages) runBefore(r request, j *site.JobRow) (*site.JobRow, error) {
	if j.Name != "" && j.User != "" {
		jobs, _, err := p.search(r.Context(), site.Filter{Cluster: j.Cluster, Users: []string{j.User}, FullName: j.Name, Until: j.Start, Access: r.access}, "", 1)
		switch {
		case err != nil:
			return nil, err
		case len(jobs) > 0:
			return &jobs[0], nil
		}
	}
	return nil, badRequest("There is no run of this name before job %s: name the other job with the parameter with.", j.Label)
}

// comparison is the table of two jobs.
func (p *Pages) comparison(r request, jobs ...*sitereport.Found) (t table, err error) {
	var lines [2]runs.Line
	t.Label, t.Head = "Comparison", []heading{{Head: "Figure"}}
	for i, f := range jobs {
		lines[i], err = f.Line(p.conf.Registry.Prices())
		if err != nil {
			return t, err
		}
		t.Head = append(t.Head, heading{Head: "Job " + printable.Text(lines[i].Job), Link: r.linkOf("job", f), IsNumber: true})
	}
	t.Head = append(t.Head, heading{Head: "Change", IsNumber: true})
	for _, c := range runs.Compare(&lines[0], &lines[1]) {
		row := []cell{{Text: c.What}, {Text: printable.Text(c.First)}, {Text: printable.Text(c.Second)}, {Text: c.Change}}
		if c.What == "Started" {
			row[1].At, row[2].At = lines[0].Start, lines[1].Start
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}
