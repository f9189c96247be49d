package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/spool"
)

// powerapiJoin keeps reports with runs that the spool has already: of their node and
// their job, and of their time.
type powerapiJoin struct {
	runs  []*joinedRun
	named bool            // the runs are those of --run, and the sensor may be called as it likes
	nodes map[string]bool // sensors of whose reports a run took some
}

// joinedRun is a run and what is to be kept with it.
type joinedRun struct {
	path    string
	run     rt.Run
	records []rt.Record
	early   bool // there are reports of its job, but it has not ended
}

// newPowerapiJoin takes the runs of --run, or where there is none all that trackers
// have made.
func newPowerapiJoin(to importTarget) (*powerapiJoin, error) {
	j := &powerapiJoin{named: len(to.into) > 0, nodes: map[string]bool{}}
	take := func(e *spool.Entry) {
		if e.Err == nil && e.Run.TrackerVersion != powerapiSource {
			j.runs = append(j.runs, &joinedRun{path: e.Path, run: e.Run})
		}
	}
	for i := range to.into {
		take(&to.into[i])
	}
	if j.named {
		if len(j.runs) == 0 {
			return nil, errors.New("--run: it was made of reports, and stays as it is")
		}
		return j, nil
	}
	return j, spool.Walk(to.dir, take)
}

// take keeps a report with each run that it is about, and says whether there is one.
func (j *powerapiJoin) take(report powerapi.Report) (taken bool, err error) {
	head := report.Head()
	for _, r := range j.runs {
		about := r.concerned(report)
		if about == concernsNobody || !j.named && !isNode(head.Sensor, r.run.Node) {
			continue
		}
		if r.run.State == rt.StateRunning {
			if about == concernsJob || j.named {
				r.early, taken = true, true
			}
			continue
		}
		if head.Time.Before(r.run.Start) || head.Time.After(r.run.End) {
			continue
		}
		rec, err := powerapiRecord(report)
		if err != nil {
			return taken, err
		}
		r.records = append(r.records, rec)
		j.nodes[head.Sensor], taken = true, true
	}
	return taken, nil
}

// isNode says whether a sensor has the name of a node, or the host's whole name.
func isNode(sensor, node string) bool {
	host, _, _ := strings.Cut(sensor, ".")
	return sensor == node || host == node
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
func (j *powerapiJoin) write(name string, warn io.Writer) error {
	var failed []error
	for _, r := range j.runs {
		if r.early {
			failed = append(failed, fmt.Errorf("%s has not ended: import its reports again when it has", r.path))
		}
		if len(r.records) == 0 {
			continue
		}
		added, err := r.write(name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		fmt.Fprintf(warn, "rt-spool: import: %s: %d reports are kept with %s now%s\n", name, added, r.path, alreadyThere(len(r.records)-added))
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
func (j *powerapiJoin) none(left []powerapi.Report) error {
	var runs []string
	for _, r := range j.runs {
		runs = append(runs, fmt.Sprintf("%s on %s from %s to %s", r.run.Label(), r.run.Node, r.run.Start.UTC().Format(time.RFC3339), r.run.End.UTC().Format(time.RFC3339)))
	}
	first := left[0].Head()
	return fmt.Errorf("none of its %d reports is of %s: the first is of sensor %q, target %q, %s",
		len(left), strings.Join(runs, ", or "), first.Sensor, strings.Join(targetsOf(left[0]), ", "), first.Time.Format(time.RFC3339))
}
