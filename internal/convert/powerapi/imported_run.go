package powerapi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// madeRun is a run that an import made of reports.
type importedRun struct {
	path string
	run  rt.Run
}

// isOf says whether the run is of the same node and job.
func (m *importedRun) isOf(run *rt.Run) bool {
	return m.run.Node == run.Node && m.run.Cluster == run.Cluster && m.run.JobID == run.JobID &&
		m.run.ArrayJobID == run.ArrayJobID && m.run.ArrayTaskID == run.ArrayTaskID
}

// madeBefore finds the run that an earlier import made of these reports. One that was
// made of some of them, or of others of the same time, is an error: two runs would have
// what the node used in that time twice.
func (j *join) madeBefore(run *rt.Run, of []*targeted) (path string, err error) {
	for i := range j.made {
		m := &j.made[i]
		if !m.isOf(run) || run.Start.After(m.run.End) || run.End.Before(m.run.Start) {
			continue
		}
		there, err := m.reports()
		if err != nil {
			return "", err
		}
		fresh, err := there.without(of)
		switch first, last := of[0].time(), of[len(of)-1].time(); {
		case err != nil:
			return "", err
		case fresh == 0:
			return m.path, nil
		case fresh < len(of) || !first.After(there.last) && !last.Before(there.first):
			return "", fmt.Errorf("%d of its %d reports are not kept: the spool has a run of this job, %s, that was made of other reports, from %s to %s; "+
				"import all of them at once into another spool (rt-spool --spool DIR import), or remove that file before", fresh, len(of), m.path,
				there.first.Format(time.RFC3339), there.last.Format(time.RFC3339))
		}
	}
	return "", nil
}

// madeOf are the reports that a run was made of.
type madeOf struct {
	known       map[string]bool
	first, last time.Time
}

func (m *importedRun) reports() (of madeOf, err error) {
	r, err := spool.Open(m.path)
	if err != nil {
		return of, err
	}
	of.known = map[string]bool{}
	for rec, failed := range r.Records(context.Background(), source) {
		if failed != nil {
			err = failed
			break
		}
		at := time.Unix(0, rec.Time).UTC()
		if len(of.known) == 0 || at.Before(of.first) {
			of.first = at
		}
		if at.After(of.last) {
			of.last = at
		}
		of.known[string(rec.Body)] = true // the time is in it
	}
	return of, errors.Join(err, r.Close())
}

// without is how many of these reports it lacks.
func (of *madeOf) without(reports []*targeted) (n int, err error) {
	for _, t := range reports {
		rec, err := recordOf(t.report)
		if err != nil {
			return 0, err
		}
		if !of.known[string(rec.Body)] {
			n++
		}
	}
	return n, nil
}

// makeRoom lets the run begin so many milliseconds earlier that its file has a name of
// its own: in the name are neither the cluster nor all letters of the node, and jobs
// of one sensor begin at one time.
func (j *join) makeRoom(dir string, run *rt.Run) {
	for j.paths[filepath.Join(dir, run.FileStem()+".db")] {
		run.Start = run.Start.Add(-time.Millisecond)
	}
}
