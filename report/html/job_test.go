package html

import (
	"bytes"
	"fmt"
	"iter"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// simulated describes a run for the tests.
type simulated struct {
	node     string
	readings int
	every    time.Duration
	gpus     int
	killAt   int    // the reading that has an OOM kill; 0: none
	unread   [2]int // the readings without memory, from and to
	missed   [2]int // the readings that were not taken
	name     string
}

func (o simulated) run() rt.Run {
	end := start.Add(time.Duration(o.readings) * o.every)
	return rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some[uint64](4711), Node: o.node, BootID: "b", Start: start},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "anna", Account: "chem", Partition: "batch", NumNodes: rt.Some[uint64](1), AllocCPUs: rt.Some[uint64](8), AllocMem: rt.Some[uint64](32 << 30), JobStart: start, JobEndLimit: start.Add(36 * time.Hour)},
		Meta:       rt.Metadata{JobName: o.name},
		Interval:   o.every.Seconds(),
		Ending:     rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, ExitCode: rt.Some[int64](0), End: end},
	}
}

// snapshots yields the readings of the run, always the same.
func (o simulated) snapshots() iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		r := rand.New(rand.NewPCG(1, 1))
		var cpu, read, written, stall, energy, recv uint64
		for i := range o.readings {
			cores := 5 + 2*r.Float64()
			if i/300%4 == 3 {
				cores = 0.5 * r.Float64()
			}
			secs := o.every.Seconds()
			cpu += uint64(cores * secs * 1e6)
			read += uint64(r.IntN(80 << 20))
			written += uint64(r.IntN(10 << 20))
			stall += uint64(r.Float64() * 0.1 * secs * 1e6)
			energy += uint64((120 + 20*cores + 5*r.Float64()) * secs * 1e6)
			recv += uint64(r.IntN(1 << 20))
			if o.missed[0] <= i && i < o.missed[1] {
				continue
			}
			anon := uint64(6<<30) + uint64(i)*(18<<30)/uint64(o.readings) + uint64(r.IntN(1<<26))
			file := uint64(2<<30) + uint64(r.IntN(1<<28))
			at := time.Duration(i) * o.every
			s := rt.Snapshot{Seq: int64(i + 1), Wall: start.Add(at).UnixNano(), Boot: int64(time.Hour + at)}
			s.Job = rt.JobReading{
				Phase: rt.JobPresent, CPUUsage: rt.Some(cpu), CPUUser: rt.Some(cpu - cpu/10), CPUSystem: rt.Some(cpu / 10), CPUThrottled: rt.Some(cpu / 50),
				MemCurrent: rt.Some(anon + file + 50<<20), MemPeak: rt.Some(anon + file + 60<<20), MemLimit: rt.Some[uint64](32 << 30), Swap: rt.Some[uint64](0),
				Anon: rt.Some(anon), File: rt.Some(file), Shmem: rt.Some[uint64](256 << 20), Kernel: rt.Some[uint64](50 << 20),
				EventsOOMKill: rt.Some[uint64](0), Pids: rt.Some(uint64(9 + r.IntN(2))), Threads: rt.Some(uint64(20 + r.IntN(5))),
				IOReadBytes: rt.Some(read), IOWriteBytes: rt.Some(written),
				CPUStallSome: rt.Some(stall), MemStallSome: rt.Some(stall / 10), IOStallSome: rt.Some(stall / 3),
			}
			if o.killAt > 0 && i >= o.killAt {
				s.Job.EventsOOMKill.Set(1)
			}
			if o.unread[0] <= i && i < o.unread[1] {
				s.Job.MemCurrent.Clear()
				s.Job.Anon.Clear()
				s.Job.File.Clear()
			}
			s.Node.NetRxBytes.Set(recv)
			s.Node.NetTxBytes.Set(recv / 4)
			s.Energy = []rt.EnergyReading{{Source: "powercap", Domain: "package-0", Kind: rt.EnergyPackage, Energy: rt.Some(energy)}}
			for g := range o.gpus {
				s.GPUs = append(s.GPUs, rt.GPUReading{UUID: fmt.Sprint("GPU-", g), Host: fmt.Sprint(g), Name: "H200", Type: "GPU", InJob: rt.Some(true),
					Utilization: rt.Some(max(0, min(100, cores*14+float64(r.IntN(8)-g*20)))), VRAMUsed: rt.Some(uint64(60<<30 + r.IntN(1<<30) - g<<34)), VRAMTotal: rt.Some[uint64](141 << 30), Power: rt.Some(150 + 60*cores + 20*r.Float64())})
			}
			step := i * 4 / o.readings // four steps one after another
			s.Steps = []rt.StepReading{{Step: "batch", CPUUsage: rt.Some(cpu / 100)}, {Step: fmt.Sprint(step), CPUUsage: rt.Some(cpu / 4), MemPeak: rt.Some(anon)}}
			for task := range uint64(2) {
				s.Steps = append(s.Steps, rt.StepReading{Step: fmt.Sprint(step), Task: rt.Some(task), CPUUsage: rt.Some(cpu / 8), MemPeak: rt.Some(anon / 2)})
			}
			s.Procs = []rt.ProcessReading{{PID: 100, Start: 1, Comm: "solver", Step: fmt.Sprint(step), UserTicks: rt.Some(cpu / 10000), SystemTicks: rt.Some[uint64](1), RSS: rt.Some(anon)}}
			if !yield(&s, nil) {
				return
			}
		}
	}
}

func (o simulated) asRun(t *testing.T) PageRun {
	t.Helper()
	run := o.run()
	sum, err := report.Summarize(run, nil, o.snapshots())
	if err != nil {
		t.Fatal(err)
	}
	series, err := Collect(sum, o.snapshots())
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := report.WriteDetails(&text, sum, report.TextOptions{Zone: time.UTC}); err != nil {
		t.Fatal(err)
	}
	return PageRun{Summary: sum, Series: series, Text: text.String()}
}

// pageOf writes the page of the runs, with the advice.
func pageOf(t *testing.T, runs ...PageRun) []byte {
	t.Helper()
	job := &Page{Name: "4711", Zone: time.UTC, Runs: runs}
	var list []*report.Summary
	for i := range runs {
		list = append(list, runs[i].Summary)
	}
	job.Jobs = report.Jobs(list)
	for _, j := range job.Jobs {
		j.Advise(nil)
	}
	var out bytes.Buffer
	if err := Write(&out, job); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// dayOf is a run of 24 hours on a node.
func dayOf(node string) simulated {
	return simulated{node: node, readings: 8640, every: 10 * time.Second, name: "md", unread: [2]int{2000, 2200}, missed: [2]int{5000, 5200}}
}

// manyNodes returns the runs of 24 hours of a job on n nodes, with the same readings.
func manyNodes(t *testing.T, n int) []PageRun {
	t.Helper()
	return copies(dayOf("n01").asRun(t), n)
}

func copies(first PageRun, n int) []PageRun {
	first.Summary.Run.NumNodes.Set(uint64(n))
	list := []PageRun{first}
	for i := 1; i < n; i++ {
		summary := *first.Summary
		summary.Run.Node = fmt.Sprintf("n%02d", i+1)
		list = append(list, PageRun{Summary: &summary, Series: first.Series, Text: first.Text})
	}
	return list
}
