package api

import (
	"net/http"

	"github.com/resource-tracker/rt/site"
)

// unassignedParameters are the parameters of GET /v1/unassigned. The cursor is the id of a run.
var unassignedParameters = map[string]parameter{
	"limit": listParameters["limit"],
	"cursor": {false, func(q *query, v []string) string {
		if !nameOfRun.MatchString(v[0]) {
			return "must be next of an earlier answer"
		}
		q.cursor = v[0]
		return ""
	}},
}

// readUnassigned answers GET /v1/unassigned, for operators: the runs of no job, the newest first.
func (s *readers) readUnassigned(w http.ResponseWriter, r *http.Request, q reading, _ string) error {
	list, err := parseQuery(r, unassignedParameters)
	if err != nil {
		return err
	}
	if q.access != nil {
		return refuse(http.StatusForbidden, "only operators may list the runs of no job (serve.operators)")
	}
	left := list.limit
	read := func(before string) (runs []site.StoredRun, next string, err error) {
		runs, next, err = s.conf.Registry.Visible.Unassigned(q.ctx, before, min(left, batchRuns))
		left -= len(runs)
		return runs, next, err
	}
	runs, next, err := read(list.cursor)
	if err != nil {
		return err
	}
	l := s.beginList(w, q, "runs")
	for {
		for _, run := range runs {
			if err := l.item(runItem{viewOfJob(run.Record), viewOfRun(run)}, 0); err != nil {
				s.problems.abort(err)
			}
		}
		if next == "" || left <= 0 {
			break
		}
		runs, next, err = read(next)
		if err != nil {
			s.problems.abort(err)
		}
	}
	l.end(next)
	return nil
}
