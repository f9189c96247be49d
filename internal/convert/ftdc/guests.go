package ftdc

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// guest is a process of the job, or one on a GPU, in a file. Every name that comes
// or goes costs a schema, so that a file has those alone that a report may show,
// each from the first reading that shows it to the last. Between these its metrics
// hold what was read of it last, and <name>.read says what was read now: bit 0 that
// it was, bit n its n-th figure.
type guest struct {
	span
	prefix, flags string        // of its metrics, and the one that says what was read
	held          reflect.Value // what was read last of each figure
	read          uint64
}

// readMetric is the last word of the metric that says what was read of a guest.
const readMetric = "read"

// span is from the first reading to the last, by Seq; 0 where there is none.
type span struct{ first, last int64 }

func (s span) with(seq int64) span {
	if s.first == 0 {
		s.first = seq
	}
	s.last = seq
	return s
}

func newGuest(kind string, element reflect.Value, s span) *guest {
	held := reflect.New(element.Type()).Elem()
	held.Set(element)
	g := &guest{span: s, held: held}
	for i := range parts {
		if parts[i].kind == kind {
			g.prefix = kind + "." + parts[i].key(held)
		}
	}
	g.flags = g.prefix + "." + readMetric
	return g
}

// take keeps what a reading has of it.
func (g *guest) take(element reflect.Value) {
	g.read = 1
	for i, n := range numbersOf(element.Type()) {
		f := element.FieldByIndex(n.index)
		if _, ok := figure(f); ok {
			g.held.FieldByIndex(n.index).Set(f)
			g.read |= 2 << i
		}
	}
}

const (
	guestsByUse   = 32   // processes of most CPU time that a file has, and as many of most memory
	guestsPerKill = 3    // those largest in memory before an OOM kill
	guestsOnGPUs  = 256  // processes on GPUs
	maxMet        = 4096 // processes that are remembered before it is known which
)

type procID struct{ pid, start uint64 }

// procKey is a process by what it is called: it may change its command.
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

// procUse is the most that was seen of a process.
type procUse struct{ ticks, rss uint64 }

// guestBook is what a first pass over a run finds, before it is known which of its
// processes a file has.
type guestBook struct {
	use    map[procID]procUse
	seen   map[procKey]span
	onGPUs map[gpuProcKey]span
	killed map[procID]bool // that were largest before an OOM kill
	before []rt.ProcessReading
	kills  uint64
}

func newGuestBook() *guestBook {
	return &guestBook{
		use: map[procID]procUse{}, seen: map[procKey]span{}, onGPUs: map[gpuProcKey]span{}, killed: map[procID]bool{},
	}
}

func (b *guestBook) meet(s *rt.Snapshot) {
	for i := range s.Procs {
		p := &s.Procs[i]
		key := procKeyOf(p)
		u := b.use[key.procID]
		user, ok1 := p.UserTicks.Get()
		system, ok2 := p.SystemTicks.Get()
		if ok1 && ok2 {
			u.ticks = max(u.ticks, user+system)
		}
		u.rss = max(u.rss, p.RSS.Or(0))
		b.use[key.procID], b.seen[key] = u, b.seen[key].with(s.Seq)
	}
	for i := range s.GPUProcesses {
		key := gpuProcKey{s.GPUProcesses[i].UUID, s.GPUProcesses[i].PID}
		if known := b.onGPUs[key]; known.first != 0 || len(b.onGPUs) < guestsOnGPUs {
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
	if len(b.seen) > maxMet {
		b.forget(maxMet / 4)
	}
}

// keepLargest remembers those of a reading that held most memory.
func (b *guestBook) keepLargest(procs []rt.ProcessReading) {
	sorted := slices.SortedFunc(slices.Values(procs), func(p, q rt.ProcessReading) int {
		return cmp.Or(-cmp.Compare(p.RSS.Or(0), q.RSS.Or(0)), cmp.Compare(p.PID, q.PID))
	})
	for _, p := range sorted[:min(guestsPerKill, len(sorted))] {
		b.killed[procID{p.PID, p.Start}] = true
	}
}

// most are the processes that used most, n by CPU time and n by memory, in the
// order of a report, and those that were killed.
func (b *guestBook) most(n int) map[procID]bool {
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

// forget drops those that used little.
func (b *guestBook) forget(keep int) {
	kept := b.most(keep)
	maps.DeleteFunc(b.use, func(id procID, _ procUse) bool { return !kept[id] })
	maps.DeleteFunc(b.seen, func(key procKey, _ span) bool { return !kept[key.procID] })
}

// guests are those that a file has, in the order they came.
type guests struct {
	list   []*guest
	procs  map[procKey]*guest
	onGPUs map[gpuProcKey]*guest
}

func (b *guestBook) guests() guests {
	out := guests{procs: map[procKey]*guest{}, onGPUs: map[gpuProcKey]*guest{}}
	kept := b.most(guestsByUse)
	for key, s := range b.seen {
		if kept[key.procID] {
			p := rt.ProcessReading{PID: key.pid, Start: key.start, Task: key.task, Step: key.step, Comm: key.comm}
			out.procs[key] = newGuest(processKind, reflect.ValueOf(p), s)
			out.list = append(out.list, out.procs[key])
		}
	}
	for key, s := range b.onGPUs {
		out.onGPUs[key] = newGuest(gpuProcessKind, reflect.ValueOf(rt.GPUProcessReading{UUID: key.uuid, PID: key.pid}), s)
		out.list = append(out.list, out.onGPUs[key])
	}
	slices.SortFunc(out.list, func(p, q *guest) int {
		return cmp.Or(cmp.Compare(p.first, q.first), strings.Compare(p.prefix, q.prefix))
	})
	return out
}

// take keeps what a snapshot has of them, and yields those that its datum has.
func (g *guests) take(s *rt.Snapshot, yield func(*guest)) {
	for i := range s.Procs {
		if of := g.procs[procKeyOf(&s.Procs[i])]; of != nil {
			of.take(reflect.ValueOf(&s.Procs[i]).Elem())
		}
	}
	for i := range s.GPUProcesses {
		if of := g.onGPUs[gpuProcKey{s.GPUProcesses[i].UUID, s.GPUProcesses[i].PID}]; of != nil {
			of.take(reflect.ValueOf(&s.GPUProcesses[i]).Elem())
		}
	}
	for _, of := range g.list {
		if of.first <= s.Seq && s.Seq <= of.last {
			yield(of)
			of.read = 0
		}
	}
}
