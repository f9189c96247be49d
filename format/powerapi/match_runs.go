package powerapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// join stores reports with the runs in the spool that have the same node, job and time.
type join struct {
	runs  []*joinedRun
	on    map[string][]*joinedRun // the runs of a node
	named bool                    // the runs are from --run, and the sensor may have any name
	nodes map[string]bool         // sensors with reports that a run took
	made  []importedRun           // of earlier imports
	paths map[string]bool         // of all runs
}

// joinedRun is a run and the reports to store with it.
type joinedRun struct {
	path    string
	run     rt.Run
	records []rt.ForeignReport
	ours    int  // number of reports that rt made from the run
	early   bool // it has reports, but has not ended
}

// newJoin takes the runs of --run, or all runs of trackers.
func newJoin(dir string, into []spool.Entry) (*join, error) {
	j := &join{named: len(into) > 0, on: map[string][]*joinedRun{}, nodes: map[string]bool{}, paths: map[string]bool{}}
	for i := range into {
		j.addRun(into[i].Path, into[i].Run)
	}
	if j.named {
		if len(j.runs) == 0 {
			return nil, errors.New("--run: the run was imported from reports and is not changed")
		}
		return j, nil
	}
	return j, spool.Walk(dir, func(e *spool.Entry) {
		if run, err := runOf(e); err == nil { // an unreadable run does not affect the others
			j.addRun(e.Path, run)
		}
	})
}

// runOf returns the run of an entry. spool.Walk leaves it out for delivered runs.
func runOf(e *spool.Entry) (rt.Run, error) {
	if e.Err != nil || e.Run.Node != "" {
		return e.Run, e.Err
	}
	r, err := spool.Open(e.Path)
	if err != nil {
		return rt.Run{}, err
	}
	return r.Run(), r.Close()
}

func (j *join) addRun(path string, run rt.Run) {
	j.paths[path] = true
	if run.TrackerVersion == source {
		j.made = append(j.made, importedRun{path, run})
		return
	}
	r := &joinedRun{path: path, run: run}
	j.runs = append(j.runs, r)
	j.on[run.Node] = append(j.on[run.Node], r)
}

// runsOn returns the runs of --run, or those on the node that the sensor is named after.
func (j *join) runsOn(sensor string) []*joinedRun {
	if j.named {
		return j.runs
	}
	if host, _, whole := strings.Cut(sensor, "."); whole {
		return slices.Concat(j.on[sensor], j.on[host])
	}
	return j.on[sensor]
}

// takeReport adds a report to each run that it is about, if any. It only counts reports that rt made.
func (j *join) takeReport(report Report) (taken bool, err error) {
	head := report.Head()
	for _, r := range j.runsOn(head.Sensor) {
		running := r.run.State == rt.StateRunning
		isAfter := !running && head.Time.After(r.run.End)
		if isAfter || head.Time.Before(r.run.Start) {
			continue
		}
		about := r.concerned(report)
		own := head.Metadata[ownMark] == kindOfReport(report)
		isUnclear := running && about == concernsNode && !j.named && !own // the run may end before the report
		if isUnclear || about == concernsNeither {
			continue
		}
		taken = true
		switch {
		case own:
			r.ours++
			continue
		case running:
			r.early = true
			continue
		}
		rec, err := recordOf(report)
		if err != nil {
			return taken, err
		}
		r.records = append(r.records, rec)
		j.nodes[head.Sensor] = true
	}
	return taken, nil
}

// concern is what a report is about, relative to a run.
type concern uint8

const (
	concernsNeither concern = iota
	concernsNode
	concernsJob
)

func (r *joinedRun) concerned(report Report) concern {
	about := concernsNeither
	for _, target := range targetsOf(report) {
		if t, ok := parseTarget(target); ok && t.isOf(&r.run) {
			return concernsJob
		}
		if target == All {
			about = concernsNode
		}
	}
	return about
}

// write stores the reports in the files of the runs, and reports how many.
func (j *join) write(name string, warn func(format string, args ...any)) error {
	var failed []error
	for _, r := range j.runs {
		if r.early {
			failed = append(failed, fmt.Errorf("%s has not ended: import its reports again when it has", r.path))
		}
		if r.ours > 0 {
			warn("%s: %d reports were made of %s, which has their readings: they are not stored", name, r.ours, r.path)
		}
		if len(r.records) == 0 {
			continue
		}
		added, err := r.write(name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		before := ""
		if n := len(r.records) - added; n > 0 {
			before = fmt.Sprintf(", %d were already stored", n)
		}
		warn("%s: %d reports are stored with %s now%s", name, added, r.path, before)
	}
	return errors.Join(failed...)
}

func (r *joinedRun) write(name string) (added int, err error) {
	f, err := spool.Open(r.path)
	if err != nil {
		return 0, err
	}
	added, err = f.AddRecords(r.records, rt.Event{Time: time.Now().UTC(), Kind: "tracker", Name: "import", Status: "ok",
		Detail: "PowerAPI reports stored from " + name})
	return added, errors.Join(err, f.Close())
}

// none returns the error for reports that belong to none of the runs of --run.
func (j *join) none(left []Report) error {
	var runs []string
	for _, r := range j.runs {
		runs = append(runs, fmt.Sprintf("%s on %s from %s to %s", r.run.Label(), r.run.Node, r.run.Start.UTC().Format(time.RFC3339), r.run.End.UTC().Format(time.RFC3339)))
	}
	first := left[0].Head()
	return fmt.Errorf("none of its %d reports belongs to %s: the first has sensor %q, target %q, time %s",
		len(left), strings.Join(runs, ", or "), first.Sensor, strings.Join(targetsOf(left[0]), ", "), first.Time.Format(time.RFC3339))
}
