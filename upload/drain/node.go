package drain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/slurm/launch"
	"github.com/resource-tracker/rt/spool"
)

// Node says where the state of a node is: the waiting runs, the drains, the trackers and the hooks. The state is for
// the metrics of the node and for its report to a site service.
type Node struct {
	Spool       string // directory
	Quota       int64  // bytes of the spool; 0: no limit
	StateDir    string // of the hooks
	DisableFile string // the kill switch of the hooks; empty: none

	BreakerFailures int           // failures in a row that open the breaker
	BreakerReset    time.Duration // the longest time for which it stays open
}

// Read returns the state at a time. What cannot be read is absent in it, and named by the error.
func (s Node) Read(now time.Time) (site.NodeState, error) {
	n := site.NodeState{Time: now.UTC(), Version: rt.Version, Schema: rt.Some(int64(rt.SpoolSchema))}
	drains, err := readDrains(s.Spool)
	errs := []error{err}
	if err == nil {
		drains.fillState(&n)
	}
	errs = append(errs, s.readRuns(&n), s.readSpace(&n), s.readHooks(&n, now))
	return n, errors.Join(errs...)
}

// readRuns reads what waits in the spool. It also identifies the node by the newest run since the
// boot that waits or was delivered a moment ago. The spool may be a copy from another machine.
func (s Node) readRuns(n *site.NodeState) error {
	boot, err := host.BootID("/proc")
	if err != nil {
		return err
	}
	var alive, runs, bytes, unreadable int64
	var oldest, newest time.Time
	err = spool.Walk(s.Spool, func(e *spool.Entry) {
		run := &e.Run
		isOfThisBoot := run.Node != "" && run.BootID == boot
		if isOfThisBoot && run.Start.After(newest) {
			newest, n.Cluster, n.Node = run.Start, run.Cluster, run.Node
		}
		switch {
		case e.Err != nil:
			unreadable++
		case e.Live:
			alive++
		case run.State != rt.StateDelivered:
			runs++
			bytes += e.Size
			if end := endOf(run); oldest.IsZero() || end.Before(oldest) {
				oldest = end
			}
		}
	})
	if err != nil {
		return fmt.Errorf("read the state of the node: %w", err)
	}
	n.Trackers, n.UndeliveredRuns, n.UndeliveredBytes, n.Unreadable = rt.Some(alive), rt.Some(runs), rt.Some(bytes), rt.Some(unreadable)
	if !oldest.IsZero() {
		n.OldestUndelivered = rt.Some(oldest.UTC())
	}
	return nil
}

// endOf returns when a run ended; of one that lost its tracker, when it began.
func endOf(run *rt.Run) time.Time {
	if run.End.IsZero() {
		return run.Start
	}
	return run.End
}

func (s Node) readSpace(n *site.NodeState) error {
	space, err := spool.ReadSpace(s.Spool, s.Quota)
	if err != nil {
		return err
	}
	n.SpoolBytes, n.DiskBytes, n.DiskFree = rt.Some(space.Used), rt.Some(space.Size), rt.Some(space.Free)
	if space.Limit > 0 {
		n.SpoolLimit = rt.Some(space.Limit)
	}
	return nil
}

func (s Node) readHooks(n *site.NodeState, now time.Time) error {
	n.HooksDisabled = rt.Some(false)
	if s.DisableFile != "" {
		_, err := os.Stat(s.DisableFile)
		switch {
		case err == nil:
			n.HooksDisabled = rt.Some(true)
		case !errors.Is(err, fs.ErrNotExist):
			n.HooksDisabled = rt.None[bool]()
		}
	}
	b, err := launch.State{Dir: s.StateDir}.ReadBreaker(s.BreakerFailures, s.BreakerReset, now)
	if errors.Is(err, fs.ErrNotExist) { // no hook has run since the boot
		return nil
	}
	if err != nil {
		return err
	}
	n.HookFailures = rt.Some(int64(b.Failures))
	if !b.Until.IsZero() {
		n.BreakerUntil = rt.Some(b.Until.UTC())
	}
	return nil
}
