package powerapi

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/spool"
)

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
		path, there, err := s.writeRun(im.join, im.dir, im.name, job)
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
	left := 0
	for _, t := range s.all {
		if !t.kept {
			left++
		}
	}
	if left > 0 {
		im.warn("%s: %d other reports of %s are of times without a job, and are not stored", im.name, left, s.name)
	}
	return made, errors.Join(failed...)
}

// reportsOf returns the reports of a job and those of the node in its time, or all if there is
// no job. The first report of the node may be up to half an interval early: clocks jitter.
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

// writeRun makes a run of a job and returns its path. If an earlier import made the run of these
// reports, there is true and the run stays as it is.
func (s *sensor) writeRun(join *join, dir, name string, job target) (path string, there bool, err error) {
	of := s.reportsOf(job)
	counted := newCounters(of)
	run := rt.Run{Identity: rt.Identity{Node: s.name, Start: counted.start}, TrackerVersion: source, Ending: rt.Ending{End: of[len(of)-1].time(), State: rt.StateRunning}}
	if job.label != "" {
		job.identify(&run)
	}
	if path, err := join.importedBefore(&run, of); path != "" || err != nil {
		return path, path != "", err
	}
	join.makeRoom(dir, &run)
	w, err := spool.Create(dir, run, rt.Host{HostName: s.name}, spool.Options{})
	if err != nil {
		return "", false, err
	}
	w.Event(rt.Event{Time: run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from the PowerAPI reports in " + name})
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
			c.add(of[i])
			if i == 0 || of[i].report != of[i-1].report {
				err = storeReport(w, of[i].report)
			}
		}
		if err == nil {
			err = w.Put(c.snapshot(at, i == len(of)))
		}
		c.clearPower()
	}
	return err
}

// storeReport stores a report with the run.
func storeReport(w *spool.Writer, report powerapi.Report) error {
	rec, err := recordOf(report)
	if err != nil {
		return err
	}
	return w.Record(rec)
}

func recordOf(report powerapi.Report) (rt.Record, error) {
	line, err := report.AppendJSON(nil, powerapi.ISO)
	if err != nil {
		return rt.Record{}, err
	}
	return rt.Record{Time: report.Head().Time.UnixNano(), Source: source, Body: line[:len(line)-1]}, nil
}
