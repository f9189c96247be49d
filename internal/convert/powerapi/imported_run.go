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

// importedRun is a run that an import made of reports.
type importedRun struct {
	path string
	run  rt.Run
}

// isOf reports whether the run is of the same node and job.
func (m *importedRun) isOf(run *rt.Run) bool {
	return m.run.Node == run.Node && m.run.Cluster == run.Cluster && m.run.JobID == run.JobID &&
		m.run.ArrayJobID == run.ArrayJobID && m.run.ArrayTaskID == run.ArrayTaskID
}

// importedBefore returns the path of the run that an earlier import made of these reports. It is
// an error if a run was made of some of them, or of other reports of the same time: two runs
// would count the use of the node in that time.
func (j *join) importedBefore(run *rt.Run, of []*targeted) (path string, err error) {
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
		if err != nil {
			return "", err
		}
		if fresh == 0 {
			return m.path, nil
		}
		isSeparate := of[0].time().After(there.last) || of[len(of)-1].time().Before(there.first)
		if fresh < len(of) || !isSeparate {
			return "", fmt.Errorf("%d of its %d reports are not stored: the spool has a run of this job, %s, that was made of other reports, from %s to %s; "+
				"import all of them at once into another spool (rt-spool --spool DIR import), or remove that file first", fresh, len(of), m.path,
				there.first.Format(time.RFC3339), there.last.Format(time.RFC3339))
		}
	}
	return "", nil
}

// storedSet has the reports that a run was made of.
type storedSet struct {
	known       map[string]bool
	first, last time.Time
}

func (m *importedRun) reports() (of storedSet, err error) {
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
		of.known[string(rec.Body)] = true // the body has the time
	}
	return of, errors.Join(err, r.Close())
}

// without returns how many of these reports are not in the set.
func (of *storedSet) without(reports []*targeted) (n int, err error) {
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

// makeRoom moves the start of the run back by milliseconds until the name of its file is unique.
// The name has neither the cluster nor all letters of the node, and the jobs of one sensor
// start at the same time.
func (j *join) makeRoom(dir string, run *rt.Run) {
	for j.paths[filepath.Join(dir, run.FileStem()+".db")] {
		run.Start = run.Start.Add(-time.Millisecond)
	}
}
