package page

import (
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

func seeOther(w http.ResponseWriter, to string) error {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// lookUp leads from what a person types to the job that it names, or to the jobs.
func (p *Pages) lookUp(w http.ResponseWriter, r request) error {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxText {
		return badRequest("Search for a text of at most %d characters.", maxText)
	}
	to, err := p.placeOf(r, text)
	if err != nil {
		return err
	}
	return seeOther(w, to)
}

// placeOf returns the address of what a text names: a job, or the jobs of a user, a node or an account. Else it is the
// address of the jobs with this in their name.
func (p *Pages) placeOf(r request, text string) (string, error) {
	if text == "" {
		return "jobs", nil
	}
	if jobName.MatchString(text) {
		f, err := p.found.Find(r.Context(), r.reader, sitereport.Query{Job: text})
		if err == nil {
			return pinned(f), nil
		}
		if !errors.Is(err, site.ErrNotFound) {
			return "", err
		}
	}
	for _, one := range []struct {
		field  string
		filter site.Filter
	}{{"user", site.Filter{Users: some(text)}}, {"node", site.Filter{Node: text}}, {"account", site.Filter{Accounts: some(text)}}} {
		one.filter.Access = r.access
		jobs, _, err := p.search(r.Context(), one.filter, "", 1)
		if err != nil {
			return "", err
		}
		if len(jobs) > 0 {
			return link("jobs", map[string]string{one.field: text}), nil
		}
	}
	jobs, next, err := p.search(r.Context(), site.Filter{Name: text, Access: r.access}, "", 2)
	isOne := err == nil && len(jobs) == 1 && next == ""
	if isOne {
		return linkOfRow(&jobs[0]), nil
	}
	return link("jobs", map[string]string{"name": text}), err
}
