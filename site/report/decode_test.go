package report

import (
	"bytes"
	"encoding/json"
	"errors"
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

// written makes a run with random readings, and returns its spool file and its record.
func written(t *testing.T, seed uint64, quota int64, readings int) (*spool.Reader, []byte) {
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
	t.Cleanup(func() { from.Close() })
	var record bytes.Buffer
	if err := archive.Write(t.Context(), &record, from, nil); err != nil {
		t.Fatal(err)
	}
	return from, record.Bytes()
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

// A record has the run, the summary and the readings of the spool file that it was made from, also if it was thinned.
func TestDecodeIsTheSame(t *testing.T) {
	for seed := range uint64(8) {
		quota := int64(0)
		if seed%2 == 1 {
			quota = 400 << 10
		}
		from, record := written(t, seed, quota, 400)

		r, got, err := Decode(t.Context(), t.TempDir(), nil, bytes.NewReader(record), noFigures)
		if err != nil {
			t.Fatal(err)
		}
		events, err := from.Events()
		if err != nil {
			t.Fatal(err)
		}
		want, err := report.Summarize(from.Run(), events, from.Snapshots(t.Context(), 1, 0))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(printed(t, want), printed(t, got)); diff != "" {
			t.Errorf("seed %d: the summary differs: %s", seed, diff)
		}
		if diff := cmp.Diff(fmt.Sprintf("%+v", from.Run()), fmt.Sprintf("%+v", r.Run())); diff != "" {
			t.Errorf("seed %d: the run differs: %s", seed, diff)
		}
		if diff := cmp.Diff(readingsOf(t, from), readingsOf(t, r)); diff != "" {
			t.Errorf("seed %d: the readings differ: %s", seed, diff)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func readingsOf(t *testing.T, r *spool.Reader) (list []string) {
	t.Helper()
	for s, err := range r.Snapshots(t.Context(), 1, 0) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%+v", *s))
	}
	return list
}

func printed(t *testing.T, s *report.Summary) string {
	t.Helper()
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A damaged record is an error.
func TestDecodeOfDamage(t *testing.T) {
	_, record := written(t, 1, 0, 20)

	for _, damaged := range [][]byte{nil, []byte("x"), record[:len(record)/2], record[:len(record)-1], append(bytes.Clone(record), 'x')} {
		_, _, err := Decode(t.Context(), t.TempDir(), nil, bytes.NewReader(damaged), noFigures)
		if !errors.Is(err, spool.ErrRecord) {
			t.Errorf("%d of %d bytes: %v", len(damaged), len(record), err)
		}
	}
}
