package report

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// written makes a run with random readings, and returns its record.
func written(t *testing.T, seed uint64, quota int64, readings int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	run := rt.Run{}
	run.JobID, run.Node, run.Start, run.State = rt.Some(seed), "n1", time.Unix(1772352000, 123456000).UTC(), rt.StateRunning
	run.AllocCPUs, run.AllocMem = rt.Some[uint64](4), rt.Some[uint64](1<<30)
	w, err := spool.Create(t.TempDir(), run, rt.Host{HostName: "n1"}, spool.Options{QuotaRun: quota})
	if err != nil {
		t.Fatal(err)
	}
	for i := range readings {
		if err := w.Put(reading(r, int64(i+1))); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			w.Event(rt.Event{Time: run.Start.Add(time.Duration(i) * time.Second), Kind: "sensor", Name: fmt.Sprint(i), Status: "ok"})
		}
	}
	path := w.Path()
	isEnded := seed%4 != 0
	if isEnded {
		run.End, run.Outcome = run.Start.Add(time.Hour), rt.OutcomeFinished
		err = w.End(run)
	} else {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	from, err := spool.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var record bytes.Buffer
	if err := archive.Write(t.Context(), &record, from, nil); err != nil {
		t.Fatal(err)
	}
	return record.Bytes()
}

// reading is a snapshot where any figure may be absent, with devices that come and go.
func reading(r *rand.Rand, seq int64) *rt.Snapshot {
	s := &rt.Snapshot{Seq: seq, Wall: 1772352000e9 + seq*1e9 + r.Int64N(1000)*1000, Boot: seq * 1e9}
	s.Job.Phase = rt.JobPresent
	maybe := func(v *rt.Opt[uint64]) {
		switch r.IntN(5) {
		case 0:
		case 1:
			v.Set(rt.Unlimited)
		default:
			v.Set(r.Uint64N(1 << 40))
		}
	}
	for i := range rt.NodeFigures {
		maybe(rt.NodeFigures[i].Field(&s.Node))
	}
	for i := range rt.JobFigures {
		maybe(rt.JobFigures[i].Field(&s.Job))
	}
	if r.IntN(3) == 0 {
		for i := range rt.TreeFigures {
			maybe(rt.TreeFigures[i].Field(&s.Tree))
		}
		for i := range rt.GPUUseFigures {
			maybe(rt.GPUUseFigures[i].Field(&s.GPU))
		}
		rt.NodeGPUUsage.Field(&s.Node).Set(r.Float64())
		rt.GPUUseUsage.Field(&s.GPU).Set(float64(r.IntN(3)))
	}
	s.Node.CPU.Set(rt.CPUTimes{User: uint64(seq) * 100, Idle: uint64(seq) * 300})
	s.CPUs = []rt.CPUReading{{CPU: 0, Times: rt.CPUTimes{User: uint64(seq) * 50, Idle: uint64(seq) * 50}}, {CPU: 1, Times: rt.CPUTimes{User: uint64(seq) * 40}}}
	for n := range uint64(3) {
		if r.IntN(3) == 0 {
			continue
		}
		disk := rt.DiskReading{Name: fmt.Sprintf("disk%d", n), Leaf: true}
		maybe(&disk.ReadBytes)
		s.Disks = append(s.Disks, disk)
		net := rt.NetReading{Name: fmt.Sprintf("eth%d", n), OperState: []string{"up", "down"}[r.IntN(2)]}
		maybe(&net.RxBytes)
		s.Nets = append(s.Nets, net)
		process := rt.ProcessReading{PID: n + r.Uint64N(5)*10, Comm: "x", Step: "batch"}
		maybe(&process.RSS)
		s.Procs = append(s.Procs, process)
		step := rt.StepReading{Step: fmt.Sprint(n)}
		maybe(&step.CPUUsage)
		s.Steps = append(s.Steps, step)
		s.GPUs = append(s.GPUs, rt.GPUReading{UUID: fmt.Sprint(n), Detail: map[string]string{"a": "b"}})
		energy := rt.EnergyReading{Source: "rapl", Domain: fmt.Sprint(n)}
		maybe(&energy.Energy)
		s.Energy = append(s.Energy, energy)
		s.Perf = append(s.Perf, rt.PerfReading{Group: "g", Event: fmt.Sprint(n)})
	}
	return s
}

// A run that is read in memory has the same run, summary and readings as through a spool file, also when it was thinned.
func TestInMemoryIsTheSame(t *testing.T) {
	for seed := range uint64(8) {
		quota := int64(0)
		if seed%2 == 1 {
			quota = 400 << 10
		}
		record := written(t, seed, quota, 400)
		nothing := func(context.Context, *spool.Reader, *report.Summary) error { return nil }
		r, want, err := Decode(t.Context(), t.TempDir(), nil, bytes.NewReader(record), nothing)
		if err != nil {
			t.Fatal(err)
		}
		m, got, err := DecodeInMemory(t.Context(), bytes.NewReader(record))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(printed(t, want), printed(t, got)); diff != "" {
			t.Errorf("seed %d: the summary differs: %s", seed, diff)
		}
		if diff := cmp.Diff(fmt.Sprintf("%+v", r.Run()), fmt.Sprintf("%+v", m.Run())); diff != "" {
			t.Errorf("seed %d: the run differs: %s", seed, diff)
		}
		var snapshots []string
		for s, err := range r.Snapshots(t.Context(), 1, 0) {
			if err != nil {
				t.Fatal(err)
			}
			snapshots = append(snapshots, fmt.Sprintf("%+v", *s))
		}
		n := 0
		for s, err := range m.Snapshots(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if text := fmt.Sprintf("%+v", *s); n >= len(snapshots) || text != snapshots[n] {
				t.Fatalf("seed %d: reading %d is %s, want %s", seed, n, text, snapshots[min(n, len(snapshots)-1)])
			}
			n++
		}
		if n != len(snapshots) || n == 0 {
			t.Errorf("seed %d: %d readings, want %d", seed, n, len(snapshots))
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func printed(t *testing.T, s *report.Summary) string {
	t.Helper()
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A damaged record is left to Decode.
func TestDamagedInMemory(t *testing.T) {
	record := written(t, 1, 0, 20)
	for _, damaged := range [][]byte{nil, []byte("x"), record[:len(record)/2], record[:len(record)-1], append(bytes.Clone(record), 'x')} {
		_, _, err := DecodeInMemory(t.Context(), bytes.NewReader(damaged))
		if err == nil {
			t.Errorf("%d of %d bytes: no error", len(damaged), len(record))
		}
	}
	if _, _, err := DecodeInMemory(t.Context(), bytes.NewReader(record)); err != nil {
		t.Errorf("after damaged records: %v", err)
	}
}
