package api

import (
	"bytes"
	"errors"
	"net/http"
	"regexp"
	"strconv"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

// nameOfJob matches the names of jobs in Slurm: 12, 12_3, 12+1.
var nameOfJob = regexp.MustCompile(`^[0-9]{1,18}([_+][0-9]{1,18})?$`)

// jobParameters are the parameters of GET /v1/jobs/{job}.
var jobParameters = map[string]parameter{
	"cluster": listParameters["cluster"],
	"generation": {false, func(q *query, v []string) string {
		n, err := strconv.ParseInt(v[0], 10, 64)
		if err != nil || n < 1 || !number.MatchString(v[0]) {
			return "must be a number from 1 on, of at most 18 digits"
		}
		q.generation = n
		return ""
	}},
}

// readJob answers GET /v1/jobs/{job}: the job as in a list, and its report with the advice.
func (s *readers) readJob(w http.ResponseWriter, r *http.Request, q reading, name string) error {
	asked, err := parseQuery(r, jobParameters)
	if err != nil {
		return err
	}
	wanted := sitereport.Query{Job: name, Generation: asked.generation}
	if asked.filter.Cluster != "" {
		wanted.Cluster.Set(asked.filter.Cluster)
	}
	found, err := s.jobs.Find(q.ctx, q.reader, wanted)
	if errors.Is(err, site.ErrNotFound) {
		return refuse(http.StatusNotFound, "there is no job %s that you may see", name)
	}
	if err != nil {
		return err
	}
	var b bytes.Buffer
	why := rt.None[string]()
	err = s.jobs.Report(q.ctx, &b, q.reader, found, site.FormJobs)
	switch {
	case errors.Is(err, site.ErrNoReport):
		why.Set(err.Error())
		b = *bytes.NewBufferString("null")
	case errors.Is(err, site.ErrBusy):
		return &problem{status: http.StatusServiceUnavailable, retry: retryReport, detail: "other reports are being made: try again in a few seconds"}
	case err != nil:
		return err
	}
	reason, err := q.encode(why)
	if err != nil {
		return err
	}
	l := s.beginList(w, q, "jobs")
	for _, job := range found.Jobs {
		if err := l.job(job); err != nil {
			s.problems.abort(err)
		}
	}
	l.endWith(`"report":` + string(bytes.TrimSpace(b.Bytes())) + `,"no_report":` + string(reason))
	return nil
}
