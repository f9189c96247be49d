package spool

import (
	"testing"

	"github.com/resource-tracker/rt"
)

// Hour makes the run of an hour at the default intervals: every second in the first minute, then
// every 10 s. The job computes steadily on some of 32 cores, on a node that does little else. tasks
// is the number of its tasks, with a process each, in step 0 next to the batch step.
func Hour(t testing.TB, tasks, gpus int) *Reader {
	t.Helper()
	w := mustCreate(t, Options{})
	m := newMachine(32, gpus)
	m.withJob(tasks)
	run := testRun()
	w.Event(rt.Event{Kind: "sensor", Name: "energy", Status: "ok", Detail: "RAPL: 2 packages"})
	w.Event(rt.Event{Kind: "tracker", Name: "cost", Status: "ok", Detail: "cpu_user_secs=0.5 cpu_system_secs=0.25 max_rss_kib=20000 left_out=3"})
	secs := uint64(1)
	for i := range 60 + 354 {
		if i == 60 {
			secs = 10
		}
		if err := w.Put(m.steady(secs, tasks)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, w.Path())
}

// steady lets some seconds pass. The noise is about the noise of an idle compute node; the CPU time
// of a task varies by 0.2 %.
func (m *machine) steady(secs uint64, tasks int) *rt.Snapshot {
	s := &m.snap
	n, j := &s.Node, &s.Job
	s.Seq++
	s.Reason = rt.ReasonTick
	if s.Seq == 1 {
		s.Reason = rt.ReasonFirst
	}
	step := int64(secs*1e9) + m.rng.Int64N(400_000) - 200_000
	s.Wall, s.Boot = s.Wall+step, s.Boot+step
	add := func(o *rt.Opt[uint64], v uint64) { o.Set(o.Or(0) + v) }
	around := func(v, noise uint64) uint64 { return v - noise/2 + m.rng.Uint64N(noise+1) }
	ticks := 100 * secs
	t := n.CPU.Or(rt.CPUTimes{})
	t.User += uint64(tasks)*ticks + m.rng.Uint64N(8)
	t.System += around(4*secs, 4)
	t.Idle += 32*ticks - uint64(tasks)*ticks - m.rng.Uint64N(16)
	t.SoftIRQ += m.rng.Uint64N(2)
	n.CPU.Set(t)
	n.Processes.Set(810 + m.rng.Uint64N(3))
	m.wobble(60, &n.MemFree, &n.MemAvailable, &n.Active)
	m.wobble(20, &n.Cached, &n.Inactive)
	n.Load1.Set(uint64(tasks)*100 + m.rng.Uint64N(12))
	n.CPUFreq.Set(2_400_000 + 1000*m.rng.Uint64N(50))
	for _, o := range []*rt.Opt[uint64]{&n.NetRxBytes, &s.Nets[0].RxBytes, &n.NetTxBytes, &s.Nets[0].TxBytes} {
		add(o, around(2000*secs, 500))
	}
	written := m.about(20*secs) * 4096
	add(&n.DiskWriteBytes, written)
	add(&s.Disks[0].WriteBytes, written)
	for i := range s.CPUs {
		c := &s.CPUs[i].Times
		busy := m.rng.Uint64N(3)
		if i < tasks {
			busy = ticks - m.rng.Uint64N(2)
		}
		c.User, c.Idle = c.User+busy, c.Idle+ticks-busy
	}
	m.steadyJob(secs, around, add)
	add(&j.VoluntarySwitches, m.about(30*secs))
	add(&j.InvoluntarySwitches, m.about(5*secs))
	for i := range s.GPUs {
		g := &s.GPUs[i]
		g.Utilization.Set(float64(90 + m.rng.IntN(8)))
		g.VRAMUsed.Set(40 << 30)
		g.Power.Set(float64(around(300_000, 12_000)) / 1000)
		g.Temperature.Set(60 + m.rng.Uint64N(3))
		g.Frequency.Set(1410)
		s.GPU.Usage.Set(g.Utilization.Or(0) / 100)
		n.GPUUsage.Set(g.Utilization.Or(0) / 100)
	}
	return s
}

// steadyJob lets the tasks compute, and allocate memory now and then.
func (m *machine) steadyJob(secs uint64, around func(v, noise uint64) uint64, add func(*rt.Opt[uint64], uint64)) {
	s, j := &m.snap, &m.snap.Job
	grows := m.rng.IntN(8) == 0
	var usage, system uint64
	for i := range s.Steps {
		t := &s.Steps[i]
		task, ok := t.Task.Get()
		if !ok {
			continue
		}
		used, inKernel := around(secs*998_000, secs*2000), around(secs*4000, 1500)
		usage, system = usage+used, system+inKernel
		add(&t.CPUUsage, used)
		add(&t.CPUSystem, inKernel)
		add(&t.CPUUser, used-inKernel)
		add(&t.PageFaults, m.about(4*secs))
		p := &s.Procs[task]
		add(&p.UserTicks, (used-inKernel)/10_000)
		add(&p.SystemTicks, inKernel/10_000)
		p.RSS.Set(p.RSS.Or(1 << 30))
		p.Threads.Set(2)
		if grows {
			more := m.about(2000) * 4096
			for _, o := range []*rt.Opt[uint64]{&t.MemCurrent, &t.MemPeak, &t.Anon, &p.RSS} {
				add(o, more)
			}
			for _, o := range []*rt.Opt[uint64]{&j.MemCurrent, &j.MemPeak, &j.Anon, &j.Active} {
				add(o, more)
			}
		}
	}
	late := m.about(60) // the parents are read after their children
	for _, of := range [][3]*rt.Opt[uint64]{{&j.CPUUsage, &j.CPUUser, &j.CPUSystem}, {&s.Steps[1].CPUUsage, &s.Steps[1].CPUUser, &s.Steps[1].CPUSystem}} {
		add(of[0], usage+late)
		add(of[1], usage+late-system)
		add(of[2], system)
	}
	j.MemIntervalPeak.Set(j.MemCurrent.Or(0) + m.rng.Uint64N(50)*4096)
	for i := range s.Energy {
		add(&s.Energy[i].Energy, around(secs*150_000_000, secs*3_000_000))
	}
	for i := range s.Fabrics {
		add(&s.Fabrics[i].RxBytes, around(secs*1_000_000, 20_000))
		add(&s.Fabrics[i].TxBytes, around(secs*1_000_000, 20_000))
	}
}
