package drain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload/sentinel"
)

const (
	// liveTime limits the time of the reports of a drain: the delivery waits for them.
	liveTime = 15 * time.Second
	// liveAfterEnd is how long a run that waits for its delivery is reported.
	liveAfterEnd = 10 * time.Minute
	// liveReadings is the number of snapshots from which the figures of a run so far are computed.
	liveReadings = 300
	// liveName is how many bytes of the name of a job a report has: a user can give many jobs a long name.
	liveName = 200
	// headBytes is more than a report has apart from its runs.
	headBytes = 1 << 10
)

// Live reports the runs that are not delivered yet to a receiver that takes such reports, see site.LiveReport.
type Live struct {
	To       *sentinel.Client
	Interval time.Duration // the least time between two reports
}

// nodeName names a node. A spool can have runs of several, which share the host.
type nodeName struct{ Cluster, Node string }

// liveReport collects the runs of a report. A nil one does nothing.
type liveReport struct {
	to    *sentinel.Client
	dir   *Directory
	boot  string
	nodes map[nodeName][]liveRun
	files map[string]string // of the runs, by rt.Run.FileStem
	left  int               // runs that do not fit into their report
}

// liveRun is a run of a report.
type liveRun struct {
	*site.LiveRun
	text json.RawMessage
}

// liveResult is what became of a report.
type liveResult struct {
	at      time.Time // zero: none was sent
	nodes   []nodeName
	isTaken bool
	wanted  map[string]bool // by the name of the spool file
	left    int             // runs that did not fit into it
	err     error
}

// ReportSent is Drained.LiveReport and Drained.NodeReport if all of the report was sent.
const ReportSent = "sent"

func (r *liveResult) text() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.at.IsZero():
		return ""
	case r.left > 0:
		return fmt.Sprintf("%d runs that are not delivered yet are not reported: a report has at most %d runs and %d KiB", r.left, site.MaxLiveRuns, site.MaxLiveReport>>10)
	}
	return ReportSent
}

// addLive records a report.
func (d *drains) addLive(r *liveResult) {
	if !r.at.IsZero() {
		d.TakesLive, d.LiveAt, d.LiveNodes = r.isTaken, r.at.UTC(), r.nodes
	}
}

// begin begins a report; nil if the receiver takes none or got one just now. A node that had runs in the last report
// is in this one, also without runs.
func (l *Live) begin(dir *Directory) *liveReport {
	if l == nil {
		return nil
	}
	before, err := readDrains(dir.Dir)
	isTaken := before.TakesLive && before.Receiver == l.To.Endpoint()
	if err != nil || !isTaken || time.Since(before.LiveAt).Abs() < l.Interval {
		return nil
	}
	boot, err := host.BootID("/proc")
	if err != nil {
		return nil
	}
	r := &liveReport{to: l.To, dir: dir, boot: boot, nodes: map[nodeName][]liveRun{}, files: map[string]string{}}
	if name, err := os.Hostname(); err == nil && name == before.Host { // else the spool is a copy
		for _, node := range before.LiveNodes {
			r.nodes[node] = nil
		}
	}
	return r
}

// add adds a run if it is of a job of this host, and runs or has ended just now. A run that cannot be read is left out:
// the drain reports why.
func (r *liveReport) add(ctx context.Context, e *spool.Entry) {
	if r == nil || e.Err != nil {
		return
	}
	run := &e.Run
	isOfJob := run.JobID.Valid() && run.Step == "" && run.Node != "" && run.BootID == r.boot
	isNow := e.Live || time.Since(run.End) < liveAfterEnd
	if !isOfJob || !isNow {
		return
	}
	f, err := r.dir.figuresSoFar(ctx, e)
	if err != nil {
		return
	}
	r.addFigures(f)
	r.files[run.FileStem()] = filepath.Base(e.Path)
}

// addFigures adds the figures of a run.
func (r *liveReport) addFigures(f *site.LiveRun) {
	name := &f.Run.Meta.JobName
	*name = strings.ToValidUTF8((*name)[:min(len(*name), liveName)], "")
	text, err := json.Marshal(f)
	if len(text) > site.MaxLiveRun {
		f.Run.NodeList = ""
		text, err = json.Marshal(f)
	}
	if err != nil || len(text) > site.MaxLiveRun {
		r.left++
		return
	}
	node := nodeName{f.Run.Cluster, f.Run.Node}
	r.nodes[node] = append(r.nodes[node], liveRun{f, text})
}

// figuresSoFar returns the figures of a run as they leave.
func (dir *Directory) figuresSoFar(ctx context.Context, e *spool.Entry) (f *report.RunFigures, err error) {
	reader, err := spool.Open(e.Path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	sum, err := spooled{reader, reader.Delivery(), &dir.Privacy}.summarize(reader.Outline(ctx, liveReadings))
	if err != nil {
		return nil, err
	}
	f = sum.Figures()
	f.Record.Readings = int(e.Snapshots)
	return f, nil
}

// send sends a report for each node.
func (r *liveReport) send(ctx context.Context) (done liveResult) {
	if r == nil || len(r.nodes) == 0 {
		return done
	}
	ctx, cancel := context.WithTimeout(ctx, liveTime)
	defer cancel()
	done.at, done.isTaken, done.wanted = time.Now(), true, map[string]bool{}
	for node, runs := range r.nodes {
		wanted, isTaken, err := r.sendNode(ctx, node, runs)
		if err != nil {
			done.err = errors.Join(done.err, fmt.Errorf("report the runs that are not delivered yet: %w", err))
		}
		done.isTaken = done.isTaken && isTaken
		if len(runs) > 0 || err != nil { // else the receiver has no run of the node any more
			done.nodes = append(done.nodes, node)
		}
		for _, stem := range wanted {
			done.wanted[r.files[stem]] = true
		}
	}
	done.left = r.left
	return done
}

func (r *liveReport) sendNode(ctx context.Context, node nodeName, runs []liveRun) (wanted []string, isTaken bool, err error) {
	text, err := json.Marshal(struct { // site.LiveReport
		Cluster string            `json:"cluster"`
		Node    string            `json:"node"`
		Runs    []json.RawMessage `json:"runs"`
	}{node.Cluster, node.Node, r.fitRuns(runs)})
	if err != nil {
		return nil, true, err
	}
	return r.to.PutLive(ctx, text)
}

// fitRuns returns the runs of a node that fit into a report: those that run before those that have ended, the newest
// first.
func (r *liveReport) fitRuns(runs []liveRun) []json.RawMessage {
	hasEnded := func(run *liveRun) int {
		if run.Run.State == rt.StateRunning {
			return 0
		}
		return 1
	}
	slices.SortFunc(runs, func(a, b liveRun) int {
		return cmp.Or(hasEnded(&a)-hasEnded(&b), b.Run.Start.Compare(a.Run.Start), cmp.Compare(a.Run.JobID.Or(0), b.Run.JobID.Or(0)))
	})
	list, size := []json.RawMessage{}, headBytes
	for _, run := range runs {
		size += len(run.text) + 1
		if len(list) == site.MaxLiveRuns || size > site.MaxLiveReport {
			break
		}
		list = append(list, run.text)
	}
	r.left += len(runs) - len(list)
	return list
}
