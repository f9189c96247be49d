package powerapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// importedRun is a run that an import made of reports.
type importedRun struct {
	path string
	run  rt.Run
}

// importedBefore returns the path of the run that an earlier import made of these reports. It is an error if some
// reports, or others of the same time, are in a run already: two runs would count the node's use.
func (j *join) importedBefore(run *rt.Run, of []*targeted) (path string, err error) {
	for i := range j.made {
		m := &j.made[i]
		isSame := m.run.Node == run.Node && m.run.Cluster == run.Cluster && m.run.JobID == run.JobID &&
			m.run.ArrayJobID == run.ArrayJobID && m.run.ArrayTaskID == run.ArrayTaskID
		if !isSame || run.Start.After(m.run.End) || run.End.Before(m.run.Start) {
			continue
		}
		there, err := m.storedReports()
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

func (m *importedRun) storedReports() (of storedSet, err error) {
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

// writeSensor makes the runs of one sensor. A failure of one run does not prevent the others.
func (im *importer) writeSensor(s *sensor) (made []string, err error) {
	slices.SortStableFunc(s.all, func(a, b *targeted) int { return a.time().Compare(b.time()) })
	jobs := slices.SortedFunc(maps.Keys(s.jobs), func(a, b target) int { return strings.Compare(a.String(), b.String()) })
	if len(jobs) == 0 && im.join.nodes[s.name] {
		im.warn("%s: %d other reports of %s are of times without a run, and are not stored", im.name, len(s.all), s.name)
		return nil, nil
	}
	if len(jobs) == 0 {
		jobs = []target{{}}
	}
	var failed []error
	for _, job := range jobs {
		path, there, err := s.writeRun(im, job)
		switch {
		case err != nil && job.label == "":
			failed = append(failed, fmt.Errorf("%s: %w", s.name, err))
		case err != nil:
			failed = append(failed, fmt.Errorf("%s on %s: %w", job, s.name, err))
		case there:
			im.warn("%s: these reports are already in the spool, as %s, which stays as it is", im.name, path)
		default:
			made = append(made, path)
		}
	}
	left := slices.DeleteFunc(s.all, func(t *targeted) bool { return t.kept })
	if len(left) > 0 {
		im.warn("%s: %d other reports of %s are of times without a job, and are not stored", im.name, len(left), s.name)
	}
	return made, errors.Join(failed...)
}

// reportsOf returns the reports of a job and the node's reports in its time, or all if there is no job. The first
// report of the node may be up to half an interval early: clocks jitter.
func (s *sensor) reportsOf(job target) []*targeted {
	own := slices.DeleteFunc(slices.Clone(s.all), func(t *targeted) bool { return t.job != job })
	if job == (target{}) {
		own = s.all
	}
	from, to := own[0].time().Add(-firstInterval(own)/2), own[len(own)-1].time()
	var of []*targeted
	for _, t := range s.all {
		isNode := t.job == (target{}) && !t.time().Before(from) && !t.time().After(to)
		if isNode || t.job == job {
			t.kept = true
			of = append(of, t)
		}
	}
	return of
}

// writeRun makes a run of a job. there: an earlier import made the run, which stays unchanged.
func (s *sensor) writeRun(im *importer, job target) (path string, there bool, err error) {
	of, join := s.reportsOf(job), im.join
	counted := newCounters(of)
	run := rt.Run{Identity: rt.Identity{Node: s.name, Start: counted.start}, TrackerVersion: source, Ending: rt.Ending{End: of[len(of)-1].time(), State: rt.StateRunning}}
	if job.label != "" {
		job.identify(&run)
	}
	if path, err := join.importedBefore(&run, of); path != "" || err != nil {
		return path, path != "", err
	}
	join.makeRoom(im.dir, &run)
	w, err := im.limits.Create(im.dir, run, rt.Host{HostName: s.name}, spool.Options{})
	if err != nil {
		return "", false, err
	}
	w.Event(rt.Event{Time: run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from the PowerAPI reports in " + im.name})
	err = counted.write(w, of)
	run.State, run.Outcome = rt.StateEnded, rt.OutcomeUnknown
	if err == nil {
		err = w.End(run)
	}
	if err != nil {
		return "", false, errors.Join(err, w.Discard())
	}
	join.made = append(join.made, importedRun{w.Path(), run})
	join.paths[w.Path()] = true
	return w.Path(), false, nil
}

// write stores the reports, and a reading for each of their times.
func (c *counters) write(w *spool.Writer, of []*targeted) error {
	err := w.Put(c.snapshot(c.start, false))
	for i := 0; i < len(of) && err == nil; {
		at := of[i].time()
		for ; i < len(of) && err == nil && of[i].time().Equal(at); i++ {
			c.addReport(of[i])
			if i > 0 && of[i].report == of[i-1].report {
				continue
			}
			var rec rt.ForeignReport
			rec, err = recordOf(of[i].report)
			if err == nil {
				err = w.Record(rec)
			}
		}
		if err == nil {
			err = w.Put(c.snapshot(at, i == len(of)))
		}
		c.clearPower()
	}
	return err
}

func recordOf(report Report) (rt.ForeignReport, error) {
	line, err := report.AppendJSON(nil, ISO)
	if err != nil {
		return rt.ForeignReport{}, err
	}
	return rt.ForeignReport{Time: report.Head().Time.UnixNano(), Source: source, Body: line[:len(line)-1]}, nil
}
