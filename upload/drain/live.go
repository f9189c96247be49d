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
	"time"

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
	// What a receiver takes of a node.
	maxLiveRuns  = 1000
	maxLiveBytes = 8 << 10 // of a run, as JSON
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
	nodes map[nodeName][]site.LiveRun
	files map[string]string // of the runs, by rt.Run.FileStem
}

// liveResult is what became of a report.
type liveResult struct {
	at      time.Time // zero: none was sent
	nodes   []nodeName
	isTaken bool
	wanted  map[string]bool // by the name of the spool file
	err     error
}

func (r *liveResult) text() string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.at.IsZero():
		return ""
	}
	return "sent"
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
	r := &liveReport{l.To, dir, boot, map[nodeName][]site.LiveRun{}, map[string]string{}}
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
	text, err := json.Marshal(f)
	if len(text) > maxLiveBytes {
		f.Run.NodeList = ""
		text, err = json.Marshal(f)
	}
	if err != nil || len(text) > maxLiveBytes {
		return
	}
	node := nodeName{f.Run.Cluster, f.Run.Node}
	r.nodes[node] = append(r.nodes[node], *f)
	r.files[run.FileStem()] = filepath.Base(e.Path)
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
	return done
}

func (r *liveReport) sendNode(ctx context.Context, node nodeName, runs []site.LiveRun) (wanted []string, isTaken bool, err error) {
	slices.SortFunc(runs, func(a, b site.LiveRun) int { // the newest first
		return cmp.Or(b.Run.Start.Compare(a.Run.Start), cmp.Compare(a.Run.JobID.Or(0), b.Run.JobID.Or(0)))
	})
	text, err := json.Marshal(site.LiveReport{Cluster: node.Cluster, Node: node.Node, Runs: append([]site.LiveRun{}, runs[:min(len(runs), maxLiveRuns)]...)})
	if err != nil {
		return nil, true, err
	}
	return r.to.PutLive(ctx, text)
}
