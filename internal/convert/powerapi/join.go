package powerapi

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/spool"
)

// join keeps reports with runs that the spool has already: of their node and
// their job, and of their time.
type join struct {
	runs  []*joinedRun
	on    map[string][]*joinedRun // the same by node
	named bool                    // the runs are those of --run, and the sensor may be called as it likes
	nodes map[string]bool         // sensors of whose reports a run took some
	made  []importedRun           // that earlier imports made
	paths map[string]bool         // of all runs
}

// joinedRun is a run and what is to be kept with it.
type joinedRun struct {
	path    string
	run     rt.Run
	records []rt.Record
	ours    int  // reports that rt made of it
	early   bool // there are reports of its job, but it has not ended
}

// newPowerapiJoin takes the runs of --run, or where there is none all that trackers
// have made.
func newJoin(dir string, into []spool.Entry) (*join, error) {
	j := &join{named: len(into) > 0, on: map[string][]*joinedRun{}, nodes: map[string]bool{}, paths: map[string]bool{}}
	for i := range into {
		j.add(into[i].Path, into[i].Run)
	}
	if j.named {
		if len(j.runs) == 0 {
			return nil, errors.New("--run: it was made of reports, and stays as it is")
		}
		return j, nil
	}
	return j, spool.Walk(dir, func(e *spool.Entry) {
		if run, err := runOf(e); err == nil { // one that cannot be read affects no others
			j.add(e.Path, run)
		}
	})
}

// runOf is the entry's run, which spool.Walk does not show of one that was delivered.
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

func (j *join) add(path string, run rt.Run) {
	j.paths[path] = true
	if run.TrackerVersion == source {
		j.made = append(j.made, importedRun{path, run})
		return
	}
	r := &joinedRun{path: path, run: run}
	j.runs = append(j.runs, r)
	j.on[run.Node] = append(j.on[run.Node], r)
}

// of are the runs on the node that a sensor is called after, by its name or by the
// host's whole name, or those of --run.
func (j *join) of(sensor string) []*joinedRun {
	if j.named {
		return j.runs
	}
	if host, _, whole := strings.Cut(sensor, "."); whole {
		return slices.Concat(j.on[sensor], j.on[host])
	}
	return j.on[sensor]
}

// take keeps a report with each run that it is about, and says whether there is one.
// What rt made of a run's readings is not kept beside them.
func (j *join) take(report powerapi.Report) (taken bool, err error) {
	head := report.Head()
	for _, r := range j.of(head.Sensor) {
		running := r.run.State == rt.StateRunning
		if head.Time.Before(r.run.Start) || !running && head.Time.After(r.run.End) {
			continue
		}
		about := r.concerned(report)
		own := isOwn(report)
		if about == concernsNobody || running && about == concernsNode && !j.named && !own {
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

// concern is whom a report is about, as a run sees it.
type concern uint8

const (
	concernsNobody concern = iota
	concernsNode
	concernsJob
)

func (r *joinedRun) concerned(report powerapi.Report) concern {
	about := concernsNobody
	for _, target := range targetsOf(report) {
		if t, ok := parseTarget(target); ok && t.isOf(&r.run) {
			return concernsJob
		}
		if target == powerapi.All {
			about = concernsNode
		}
	}
	return about
}

// write puts the reports into the runs' files, and tells what was done.
func (j *join) write(name string, warn func(format string, args ...any)) error {
	var failed []error
	for _, r := range j.runs {
		if r.early {
			failed = append(failed, fmt.Errorf("%s has not ended: import its reports again when it has", r.path))
		}
		if r.ours > 0 {
			warn("%s: %d reports were made of %s, which has their readings: they are not kept beside these", name, r.ours, r.path)
		}
		if len(r.records) == 0 {
			continue
		}
		added, err := r.write(name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		warn("%s: %d reports are kept with %s now%s", name, added, r.path, alreadyThere(len(r.records)-added))
	}
	return errors.Join(failed...)
}

func alreadyThere(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d were there already", n)
}

func (r *joinedRun) write(name string) (added int, err error) {
	f, err := spool.Open(r.path)
	if err != nil {
		return 0, err
	}
	added, err = f.AddRecords(r.records, rt.Event{Time: time.Now().UTC(), Kind: "tracker", Name: "import", Status: "ok",
		Detail: "PowerAPI's reports are kept from " + name})
	return added, errors.Join(err, f.Close())
}

// none says that the reports are of none of the runs of --run.
func (j *join) none(left []powerapi.Report) error {
	var runs []string
	for _, r := range j.runs {
		runs = append(runs, fmt.Sprintf("%s on %s from %s to %s", r.run.Label(), r.run.Node, r.run.Start.UTC().Format(time.RFC3339), r.run.End.UTC().Format(time.RFC3339)))
	}
	first := left[0].Head()
	return fmt.Errorf("none of its %d reports is of %s: the first is of sensor %q, target %q, %s",
		len(left), strings.Join(runs, ", or "), first.Sensor, strings.Join(targetsOf(left[0]), ", "), first.Time.Format(time.RFC3339))
}
