package perf

import (
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
	// standDown is how long the counters are left to others who use them, and
	// openAgain when is tried again what could not be opened.
	standDown = 5 * time.Minute
	openAgain = 10 * time.Minute
	// ours is the part of the time that our events are to be on the counters; less,
	// and somebody else counts.
	ours = 0.95
)

// Options say what is counted.
type Options struct {
	Sys string // /sys

	// Core, Node, RAPL and MSR are lists of events, see Parse; empty for none.
	// "energy-pkg" and "tsc" alone are power/energy-pkg/ and msr/tsc/ in their groups.
	// Those of Node are counted as long as those of Core are.
	Core, Node, RAPL, MSR string

	// Cgroup returns the directory of the job's cgroup in the hierarchy that counters
	// know: of version 2, or of version 1's perf_event. False while there is none.
	Cgroup func() (dir string, ok bool)
}

// Source counts events. It is used by one goroutine, as a collect.Source.
type Source struct {
	o      Options
	node   []group // of RAPL and MSR
	job    []group // of Core, and after them of Node
	opened bool    // node was tried
	jobErr error   // why job could not be opened
	err    error   // the same of node
	again  int64   // Boot when to try the job's once more
	quiet  int64   // Boot when to enable the job's again; 0 where they count
	fit    bool    // Core and Node were seen on the counters together
	gone   bool    // the cgroup that they belong to is
	cgroup uint64  // its inode number
	notes  []rt.Event
}

// New returns the source. Nothing is opened before the first reading.
func New(o Options) *Source { return &Source{o: o} }

// Name is what the ledger calls the source.
func (s *Source) Name() string { return "perf" }

// Close gives the counters back.
func (s *Source) Close() error {
	for i := range s.node {
		s.node[i].close()
	}
	s.closeJob()
	s.node, s.opened = nil, false
	return nil
}

func (s *Source) closeJob() {
	for i := range s.job {
		s.job[i].close()
	}
	s.job, s.fit = nil, false
}

// Notes implements collect.EventSource.
func (s *Source) Notes() []rt.Event {
	notes := s.notes
	s.notes = nil
	return notes
}

func (s *Source) note(wall int64, status, detail string) {
	s.notes = append(s.notes, rt.Event{Time: time.Unix(0, wall).UTC(), Kind: "sensor", Name: "perf", Status: status, Detail: detail})
}

// Read fills snap.Perf. The error, a *StatusError, says what is not counted and why.
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
	if s.quiet != 0 {
		return s.wait(snap)
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
			// Several groups of one CPU take turns: together they are to run all the time.
			if i == 0 || !s.job[i-1].takesTurns(g) {
				of.enabled += e
			}
			of.running += r
		}
		snap.Perf = append(snap.Perf, g.readings...)
	}
	switch {
	case err != nil:
	case !core.short() && !node.short():
		s.fit = s.fit || core.enabled > 0 && node.enabled > 0
	case node.enabled > 0 && !s.fit:
		s.dropWhole(snap.Wall, core, node)
	default:
		return s.standDown(snap, core.enabled+node.enabled, core.running+node.running)
	}
	return err
}

// onCounters is for how long events were to be on the counters in an interval, and
// were, in nanoseconds of all CPUs.
type onCounters struct{ enabled, running uint64 }

func (c onCounters) short() bool { return float64(c.running) < ours*float64(c.enabled) }

// percent of the time that they were on the counters.
func (c onCounters) percent() float64 {
	if c.enabled == 0 {
		return 100
	}
	return 100 * float64(c.running) / float64(c.enabled)
}

// dropWhole gives up the whole node's events, which have never been on the counters
// beside the job's: it may be ours alone that want more counters than a CPU has, and
// to stand down would then help nobody.
func (s *Source) dropWhole(wall int64, core, node onCounters) {
	s.closeWhole(slices.IndexFunc(s.job, func(g group) bool { return g.readings[0].Group == GroupNode }))
	s.note(wall, Busy, fmt.Sprintf("the whole node's events are not counted any more: the job's were on the counters for %.0f %% of the interval and the node's for %.0f %%: "+
		"both together are more than a CPU has, or a profiler or another job's tracker counts too; have fewer events in perf.core and perf.node", core.percent(), node.percent()))
}

// closeWhole closes the groups of the whole node, which begin at this one.
func (s *Source) closeWhole(at int) {
	for i := range s.job[at:] {
		s.job[at+i].close()
	}
	s.job = s.job[:at]
}

// standDown leaves the counters to whoever else uses them. What they counted so far
// stays in the readings, with the times that tell how much of it is an estimate.
func (s *Source) standDown(snap *rt.Snapshot, enabled, running uint64) error {
	s.quiet = snap.Boot + int64(standDown)
	for i := range s.job {
		if s.job[i].hardware {
			if err := s.job[i].enable(false); err != nil {
				return &StatusError{Failed, fmt.Errorf("stop counting: %w", err)}
			}
		}
	}
	return &StatusError{Busy, fmt.Errorf("another program, or the tracker of another job, counts too: ours were on the counters for %.0f %% of the interval; they are left to it for %s",
		100*float64(running)/float64(enabled), standDown)}
}

// wait leaves the counters alone, and takes them up again when it is time to.
// Software events go on meanwhile.
func (s *Source) wait(snap *rt.Snapshot) error {
	over := snap.Boot >= s.quiet
	for i := range s.job {
		g := &s.job[i]
		if !g.hardware {
			_, _, _ = g.read() // its readings are absent then
		} else if g.clear(); over {
			_, _, _ = g.read() // the times from now on
			g.clear()
			if err := g.enable(true); err != nil {
				return &StatusError{Failed, fmt.Errorf("count again: %w", err)}
			}
		}
		snap.Perf = append(snap.Perf, g.readings...)
	}
	if over {
		s.quiet = 0
	}
	return &StatusError{Busy, errors.New("the counters are left to another program")}
}

// open opens what can be opened by now and is not.
func (s *Source) open(snap *rt.Snapshot) {
	if !s.opened {
		s.opened = true
		s.err = s.openNode()
	}
	switch snap.Job.Phase {
	case rt.JobGone:
		s.gone = true
	case rt.JobPresent:
		if s.gone || snap.Reason == rt.ReasonAppeared && s.replaced() { // it was made anew for the job's next step
			s.gone, s.again, s.quiet = false, 0, 0
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
	s.jobErr = s.openJob(snap.Wall, dir)
}

// replaced says whether the job's cgroup is another one than that whose events are
// counted: it may have been made anew before anybody saw that it was gone.
func (s *Source) replaced() bool {
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
		for i := 0; err == nil && i < len(on); i++ {
			var opened []group
			opened, err = openGroups(g.name, events, -1, on[i])
			s.node = append(s.node, opened...)
		}
		if failed == nil {
			failed = err
		}
	}
	return failed
}

// ofPMU completes events that are written without their PMU.
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

// openJob opens the job's events on all CPUs, or where this machine has none of
// them, the software events instead.
func (s *Source) openJob(wall int64, dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unsupported("open the job's cgroup %s to count its events, which takes cgroup version 2, for Slurm makes none of version 1's perf_event: %w", dir, err)
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
		err = s.openOn(events, fd, on)
	}
	if err == nil {
		s.openWhole(wall, on)
	}
	var status *StatusError
	if errors.As(err, &status) && status.Word == NotSupported {
		instead, _ := Parse(s.o.Sys, strings.Join(substitutes, ",")) // they are good
		if s.openOn(instead, fd, on) == nil {
			s.note(wall, NotSupported, fmt.Sprintf("%v; %s are counted instead", err, strings.Join(substitutes, ", ")))
			return nil
		}
	}
	return err
}

func (s *Source) openOn(events []Event, cgroup int, on []cpu) error {
	for _, c := range on {
		opened, err := openGroups(GroupCore, events, cgroup, c)
		if err != nil {
			s.closeJob()
			return err
		}
		s.job = append(s.job, opened...)
	}
	return nil
}

// openWhole opens what is counted of the whole node beside the job. Without it the
// job's counters are good all the same.
func (s *Source) openWhole(wall int64, on []cpu) {
	ofJob := len(s.job)
	events, err := Parse(s.o.Sys, s.o.Node)
	for i := 0; err == nil && i < len(on); i++ {
		var opened []group
		opened, err = openGroups(GroupNode, events, -1, on[i])
		s.job = append(s.job, opened...)
	}
	if err == nil {
		return
	}
	s.closeWhole(ofJob)
	var status *StatusError
	word := Failed
	if errors.As(err, &status) {
		word = status.Word
	}
	s.note(wall, word, fmt.Sprintf("the whole node's events are not counted: %v", err))
}
