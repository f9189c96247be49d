package ftdc

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// transient is the record, in an FTDC file, of one process of the job or of one process on a GPU.
//
// When the name of a metric appears or disappears, FTDC writes a new schema. To limit the schemas, a
// file has only the processes that a report can show. The metrics of a process are in each datum
// from its first reading to its last reading. If a figure is absent in a reading between these two,
// its metric keeps its last value. The bits of the metric <name>.read show what was read: bit 0 is
// for the process, bit n for its n-th figure.
type transient struct {
	span
	prefix string            // of its metrics
	flags  string            // name of the metric <name>.read, which has the bits of transient.read
	names  []string          // of its figures
	held   []rt.Opt[float64] // last value of each figure
	read   uint64            // bits of what the reading has
}

// readMetric is the last part of the name in transient.flags.
const readMetric = "read"

// span has the Seq of the first and last reading; 0 if there is none.
type span struct{ first, last int64 }

func (s span) with(seq int64) span {
	if s.first == 0 {
		s.first = seq
	}
	s.last = seq
	return s
}

func newTransient(kind string, n noun, s span) *transient {
	prefix := kind + "." + n.name()
	t := &transient{span: s, prefix: prefix, flags: prefix + "." + readMetric, held: make([]rt.Opt[float64], len(n.figures))}
	for _, f := range n.figures {
		t.names = append(t.names, prefix+"."+f.name)
	}
	return t
}

// setFigures stores a reading of the process.
func (t *transient) setFigures(figures []field) {
	t.read = 1
	for i, f := range figures {
		if v, ok := f.figure(); ok {
			t.held[i].Set(v)
			t.read |= 2 << i
		}
	}
}

// How many processes a file has.
const (
	processesByUse   = 32 // those with the most CPU time, and as many with the most memory
	processesPerKill = 3  // those with the most memory, in each of the two readings around an OOM kill
	processesOnGPUs  = 256
	maxSurveyed      = 4096 // names of processes that a survey remembers
)

type procID struct{ pid, start uint64 }

// procKey is a process with the parts of its name in the file. A process that changes its command
// has several names.
type procKey struct {
	procID
	task       rt.Opt[uint64]
	step, comm string
}

func procKeyOf(p *rt.ProcessReading) procKey {
	return procKey{procID{p.PID, p.Start}, p.Task, p.Step, p.Comm}
}

type gpuProcKey struct {
	uuid string
	pid  uint64
}

// procUse has the highest values of a process.
type procUse struct{ ticks, rss uint64 }

// processSurvey collects the processes of a run, to select those that the file has.
type processSurvey struct {
	use    map[procID]procUse
	seen   map[procKey]span
	onGPUs map[gpuProcKey]span
	killed map[procID]bool     // the largest in the readings before and after an OOM kill
	before []rt.ProcessReading // in the previous snapshot
	kills  uint64
}

func newProcessSurvey() *processSurvey {
	return &processSurvey{
		use: map[procID]procUse{}, seen: map[procKey]span{}, onGPUs: map[gpuProcKey]span{}, killed: map[procID]bool{},
	}
}

func (b *processSurvey) addSnapshot(s *rt.Snapshot) {
	for i := range s.Procs {
		p := &s.Procs[i]
		key := procKeyOf(p)
		u := b.use[key.procID]
		if user, system, ok := rt.Both(p.UserTicks, p.SystemTicks); ok {
			u.ticks = max(u.ticks, user+system)
		}
		u.rss = max(u.rss, p.RSS.Or(0))
		b.use[key.procID], b.seen[key] = u, b.seen[key].with(s.Seq)
	}
	for i := range s.GPUProcesses {
		key := gpuProcKey{s.GPUProcesses[i].UUID, s.GPUProcesses[i].PID}
		if known := b.onGPUs[key]; known.first != 0 || len(b.onGPUs) < processesOnGPUs {
			b.onGPUs[key] = known.with(s.Seq)
		}
	}
	if kills, ok := s.Job.EventsOOMKill.Get(); ok {
		if kills > b.kills {
			b.keepLargest(b.before)
			b.keepLargest(s.Procs)
		}
		b.kills = kills
	}
	b.before = append(b.before[:0], s.Procs...)
	if len(b.seen) > maxSurveyed {
		b.forget(maxSurveyed / 4)
	}
}

// keepLargest selects those processes of a reading that have the most memory.
func (b *processSurvey) keepLargest(procs []rt.ProcessReading) {
	sorted := slices.SortedFunc(slices.Values(procs), func(p, q rt.ProcessReading) int {
		return cmp.Or(-cmp.Compare(p.RSS.Or(0), q.RSS.Or(0)), cmp.Compare(p.PID, q.PID))
	})
	for _, p := range sorted[:min(processesPerKill, len(sorted))] {
		b.killed[procID{p.PID, p.Start}] = true
	}
}

// most returns the n processes with the most CPU time, the n with the most memory, and the largest ones around an OOM
// kill.
func (b *processSurvey) most(n int) map[procID]bool {
	out := maps.Clone(b.killed)
	ids := slices.Collect(maps.Keys(b.use))
	for _, of := range []func(procUse) uint64{func(u procUse) uint64 { return u.ticks }, func(u procUse) uint64 { return u.rss }} {
		slices.SortFunc(ids, func(p, q procID) int {
			return cmp.Or(-cmp.Compare(of(b.use[p]), of(b.use[q])), cmp.Compare(p.pid, q.pid), cmp.Compare(p.start, q.start))
		})
		for _, id := range ids[:min(n, len(ids))] {
			out[id] = true
		}
	}
	return out
}

// forget drops the processes with the lowest use.
func (b *processSurvey) forget(keep int) {
	kept := b.most(keep)
	maps.DeleteFunc(b.use, func(id procID, _ procUse) bool { return !kept[id] })
	maps.DeleteFunc(b.seen, func(key procKey, _ span) bool { return !kept[key.procID] })
}

// transients has the processes of a file, in the order in which they appeared.
type transients struct {
	list []*transient
	of   map[any]*transient // by procKey or gpuProcKey
}

func (b *processSurvey) selected() transients {
	out := transients{of: map[any]*transient{}}
	add := func(key any, t *transient) { out.of[key], out.list = t, append(out.list, t) }
	kept := b.most(processesByUse)
	for key, s := range b.seen {
		if kept[key.procID] {
			p := rt.ProcessReading{PID: key.pid, Start: key.start, Task: key.task, Step: key.step, Comm: key.comm}
			add(key, newTransient(processKind, nounOf(&p), s))
		}
	}
	for key, s := range b.onGPUs {
		add(key, newTransient(gpuProcessKind, nounOf(&rt.GPUProcessReading{UUID: key.uuid, PID: key.pid}), s))
	}
	slices.SortFunc(out.list, func(p, q *transient) int {
		return cmp.Or(cmp.Compare(p.first, q.first), strings.Compare(p.prefix, q.prefix))
	})
	return out
}

// eachIn stores the readings of a snapshot. It then calls yield for each process whose first reading is not in a
// later snapshot, and its last reading not in an earlier one.
func (t *transients) eachIn(s *rt.Snapshot, yield func(*transient)) {
	for i := range s.Procs {
		if of := t.of[procKeyOf(&s.Procs[i])]; of != nil {
			of.setFigures(nounOf(&s.Procs[i]).figures)
		}
	}
	for i := range s.GPUProcesses {
		if of := t.of[gpuProcKey{s.GPUProcesses[i].UUID, s.GPUProcesses[i].PID}]; of != nil {
			of.setFigures(nounOf(&s.GPUProcesses[i]).figures)
		}
	}
	for _, of := range t.list {
		if of.first <= s.Seq && s.Seq <= of.last {
			yield(of)
			of.read = 0
		}
	}
}
