// Package perf counts hardware and software events of a job with perf_event_open(2).
//
// The events of the group "core" are counted for the processes of the job's cgroup, on each
// CPU (PERF_FLAG_PID_CGROUP). With cgroup version 2 slurmstepd is in that cgroup and counts
// as the job. The events of "node" are counted for all processes, so that the job's part is
// known. The events of "rapl", the power PMU, and of "msr" (mperf, aperf, tsc) can only be
// counted for the whole node. The events of a group use a CPU's counters at the same time
// if these suffice, and one read(2) returns all of them.
//
// A CPU has few counters, and profilers need them. If the kernel removed ours from the CPU
// for a part of an interval, another process counts too: the source pauses. On a machine
// without such counters (most virtual ones), three software events are counted instead.
package perf

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// The groups.
const (
	GroupCore = "core"
	GroupNode = "node"
	GroupRAPL = "rapl"
	GroupMSR  = "msr"
)

const (
	// pauseTime is the time without counting while another process uses the counters.
	// openAgain is the time between two attempts to open the events.
	pauseTime = 5 * time.Minute
	openAgain = 10 * time.Minute
	// minShare is the least fraction of the time that our events must be on the counters;
	// below it, another process counts too.
	minShare = 0.95
)

// Options are the events to count.
type Options struct {
	Sys string // /sys

	// Core, Node, RAPL and MSR are lists of events, see Parse; empty for none. In RAPL and
	// MSR "energy-pkg" and "tsc" mean power/energy-pkg/ and msr/tsc/. The events of Node
	// are counted only while the Core events are.
	Core, Node, RAPL, MSR string

	// Cgroup returns the directory of the job's cgroup in the hierarchy that perf events
	// use: of version 2, or of version 1's perf_event. ok is false if there is none.
	Cgroup func() (dir string, ok bool)
}

// Source counts events. It is a collect.Source; one goroutine uses it.
type Source struct {
	o      Options
	node   []group // of RAPL and MSR
	job    []group // of Core, then of Node
	opened bool    // opening node was tried
	jobErr error   // of opening job
	err    error   // of opening node
	again  int64   // boot time of the next attempt to open job
	paused int64   // boot time of the end of the pause; 0 while job counts
	fit    bool    // Core and Node were on the counters at the same time once
	gone   bool    // the cgroup of job was removed
	cgroup uint64  // its inode number
	notes  []rt.Event
}

// New returns the source of Snapshot.Perf. It opens nothing before the first reading.
func New(o Options) *Source { return &Source{o: o} }

// Name is the name of the source in the ledger.
func (s *Source) Name() string { return "perf" }

// Close closes the events, which frees their counters.
func (s *Source) Close() error {
	closeAll(s.node)
	s.closeJob()
	s.node, s.opened = nil, false
	return nil
}

func (s *Source) closeJob() {
	closeAll(s.job)
	s.job, s.fit = nil, false
}

// Notes implements collect.EventSource.
func (s *Source) Notes() []rt.Event {
	notes := s.notes
	s.notes = nil
	return notes
}

func (s *Source) note(status, detail string) {
	s.notes = append(s.notes, rt.Event{Time: time.Now().UTC(), Kind: "sensor", Name: "perf", Status: status, Detail: detail})
}

// Read fills snap.Perf: counts, and times in nanoseconds. The error, a *StatusError, has the
// events that are not counted and the reason.
func (s *Source) Read(snap *rt.Snapshot) error {
	snap.Perf = snap.Perf[:0]
	s.open(snap)
	err := s.err
	for i := range s.node {
		if _, _, failed := s.node[i].read(); failed != nil && err == nil {
			err = &StatusError{Failed, fmt.Errorf("read the counters of the node: %w", failed)}
		}
		snap.Perf = append(snap.Perf, s.node[i].readings...)
	}
	if failed := s.readJob(snap); failed != nil && err == nil {
		err = failed
	}
	return err
}

func (s *Source) readJob(snap *rt.Snapshot) error {
	if len(s.job) == 0 {
		return s.jobErr
	}
	if s.paused != 0 {
		return s.readPaused(snap)
	}
	var core, node onCounters
	var err error
	for i := range s.job {
		g := &s.job[i]
		e, r, failed := g.read()
		if failed != nil && err == nil {
			err = &StatusError{Failed, fmt.Errorf("read the counters of the job: %w", failed)}
		}
		if g.hardware {
			of := &core
			if g.readings[0].Group == GroupNode {
				of = &node
			}
			// Several groups of one CPU alternate: together they should run all the time.
			if i == 0 || !s.job[i-1].alternates(g) {
				of.enabled += e
			}
			of.running += r
		}
		snap.Perf = append(snap.Perf, g.readings...)
	}
	switch {
	case err != nil:
	case !core.isShort() && !node.isShort():
		if core.enabled > 0 && node.enabled > 0 {
			s.fit = true
		}
	case node.enabled > 0 && !s.fit:
		s.dropNode(core, node)
	default:
		return s.pause(snap, core.enabled+node.enabled, core.running+node.running)
	}
	return err
}

// onCounters are the times of an interval during which events were enabled and were on the
// counters, in nanoseconds, summed over the CPUs.
type onCounters struct{ enabled, running uint64 }

func (c onCounters) isShort() bool { return float64(c.running) < minShare*float64(c.enabled) }

// percent is the part of the time during which they were on the counters.
func (c onCounters) percent() float64 {
	if c.enabled == 0 {
		return 100
	}
	return 100 * float64(c.running) / float64(c.enabled)
}

// dropNode stops counting the node's events, which were never on the counters together with
// the job's. Ours alone may exceed a CPU's counters, and then a pause would not help.
func (s *Source) dropNode(core, node onCounters) {
	s.closeNode(slices.IndexFunc(s.job, func(g group) bool { return g.readings[0].Group == GroupNode }))
	s.note(Busy, fmt.Sprintf("the whole node's events are not counted any more: the job's were on the counters for %.0f %% of the interval and the node's for %.0f %%: "+
		"together they need more counters than a CPU has, or a profiler or another job's tracker counts too; configure fewer events in perf.core and perf.node", core.percent(), node.percent()))
}

// closeNode closes the groups of the whole node, which begin at index at.
func (s *Source) closeNode(at int) {
	closeAll(s.job[at:])
	s.job = s.job[:at]
}

// pause frees the counters for the other process. The values so far stay in the readings,
// with the times that show how much of them is an estimate.
func (s *Source) pause(snap *rt.Snapshot, enabled, running uint64) error {
	s.paused = snap.Boot + int64(pauseTime)
	for i := range s.job {
		if s.job[i].hardware {
			if err := s.job[i].enable(false); err != nil {
				return &StatusError{Failed, fmt.Errorf("stop counting: %w", err)}
			}
		}
	}
	return &StatusError{Busy, fmt.Errorf("another program, or the tracker of another job, counts too: our events were on the counters for %.0f %% of the interval; they are not counted for %s",
		100*float64(running)/float64(enabled), pauseTime)}
}

// readPaused reads the software events, which continue, and ends a pause that is over.
func (s *Source) readPaused(snap *rt.Snapshot) error {
	isOver := snap.Boot >= s.paused
	for i := range s.job {
		g := &s.job[i]
		if !g.hardware || isOver {
			_, _, _ = g.read() // after an error the readings are absent
		}
		if g.hardware {
			g.clear()
		}
		if g.hardware && isOver {
			if err := g.enable(true); err != nil {
				return &StatusError{Failed, fmt.Errorf("count again: %w", err)}
			}
		}
		snap.Perf = append(snap.Perf, g.readings...)
	}
	if isOver {
		s.paused = 0
	}
	return &StatusError{Busy, errors.New("another program uses the counters")}
}

// open opens the events that are not open, if they can be opened by now.
func (s *Source) open(snap *rt.Snapshot) {
	if !s.opened {
		s.opened = true
		s.err = s.openNode()
	}
	switch snap.Job.Phase {
	case rt.JobGone:
		s.gone = true
	case rt.JobPresent:
		isReplaced := snap.Reason == rt.ReasonAppeared && s.isReplaced()
		if s.gone || isReplaced { // it was created again for the job's next step
			s.gone, s.again, s.paused = false, 0, 0
			s.closeJob()
		}
	}
	if len(s.job) > 0 || s.o.Core == "" || snap.Boot < s.again || s.o.Cgroup == nil {
		return
	}
	dir, ok := s.o.Cgroup()
	if !ok {
		return
	}
	s.again = snap.Boot + int64(openAgain)
	s.jobErr = s.openJob(dir)
}

// isReplaced reports whether the open events count another cgroup than the job's: it may
// have been removed and created again between two readings.
func (s *Source) isReplaced() bool {
	if len(s.job) == 0 {
		return false
	}
	dir, ok := s.o.Cgroup()
	var now unix.Stat_t
	return ok && unix.Stat(dir, &now) == nil && now.Ino != s.cgroup
}

func (s *Source) openNode() error {
	var failed error
	for _, g := range [...]struct{ name, pmu, list string }{{GroupRAPL, "power", s.o.RAPL}, {GroupMSR, "msr", s.o.MSR}} {
		if g.list == "" {
			continue
		}
		events, err := Parse(s.o.Sys, ofPMU(g.pmu, g.list))
		var on []cpu
		if err == nil {
			on, err = cpus(s.o.Sys, "bus/event_source/devices/"+g.pmu+"/cpumask")
		}
		var opened []group
		if err == nil {
			opened, err = openOn(g.name, events, -1, on)
			s.node = append(s.node, opened...)
		}
		failed = cmp.Or(failed, err)
	}
	return failed
}

// ofPMU adds the PMU to events that are written without it.
func ofPMU(pmu, list string) string {
	words := split(list)
	for i, w := range words {
		name, spec := nameOf(w)
		if !strings.Contains(spec, "/") {
			words[i] = name + "=" + pmu + "/" + spec + "/"
		}
	}
	return strings.Join(words, ",")
}

// openJob opens the job's events on all CPUs, or substitutes if the machine has none.
func (s *Source) openJob(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unsupported("open the job's cgroup %s to count its events, which requires cgroup version 2, because Slurm does not use version 1's perf_event: %w", dir, err)
	}
	defer unix.Close(fd) // the events hold the cgroup
	var of unix.Stat_t
	if err := unix.Fstat(fd, &of); err != nil {
		return &StatusError{Failed, fmt.Errorf("fstat %s: %w", dir, err)}
	}
	s.cgroup = of.Ino
	on, err := cpus(s.o.Sys, "")
	if err != nil {
		return err
	}
	events, err := Parse(s.o.Sys, s.o.Core)
	if err == nil {
		err = s.openCore(events, fd, on)
	}
	if err == nil {
		s.openJobNode(on)
	}
	var status *StatusError
	if errors.As(err, &status) && status.Word == NotSupported {
		instead, _ := Parse(s.o.Sys, strings.Join(substitutes, ",")) // they are valid
		if s.openCore(instead, fd, on) == nil {
			s.note(NotSupported, fmt.Sprintf("%v; %s are counted instead", err, strings.Join(substitutes, ", ")))
			return nil
		}
	}
	return err
}

func (s *Source) openCore(events []Event, cgroup int, on []cpu) (err error) {
	s.job, err = openOn(GroupCore, events, cgroup, on)
	if err != nil {
		s.closeJob()
	}
	return err
}

// openJobNode opens the node's events next to the job's, which are valid without them.
func (s *Source) openJobNode(on []cpu) {
	ofJob := len(s.job)
	events, err := Parse(s.o.Sys, s.o.Node)
	if err == nil {
		var opened []group
		opened, err = openOn(GroupNode, events, -1, on)
		s.job = append(s.job, opened...)
	}
	if err == nil {
		return
	}
	s.closeNode(ofJob)
	word := Failed
	var status *StatusError
	if errors.As(err, &status) {
		word = status.Word
	}
	s.note(word, fmt.Sprintf("the whole node's events are not counted: %v", err))
}
