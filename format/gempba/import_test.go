package gempba

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/spool"
)

func gempbaStream(n int) []byte {
	var out []byte
	for i := range n {
		e := &Envelope{
			Version: 1, TS: 1717180000000 + int64(i)*500, ElapsedSeconds: uint64(i / 2),
			Topology: &Topology{Nodes: []TopologyNode{{Hostname: "n1"}, {Hostname: "n2", SentinelWorkerID: 1}}},
			Workers:  []WorkerFrame{{WorkerID: 0, TasksLocalTotal: rt.Some(uint64(7 * i))}},
			Nodes: []NodeFrame{
				{Hostname: "n1", SentinelLocalMS: rt.Some(int64(i / 2)), MemTotalBytes: rt.Some[uint64](1 << 30), Net: NetAggregate{BytesIn: rt.Some(uint64(i / 2 * 1000))}},
				{Hostname: "n2", SentinelWorkerID: 1},
			},
		}
		out, _ = AppendLine(out, e)
	}
	return out
}

// An imported broadcast is exported unchanged.
func TestGemPBAExchange(t *testing.T) {
	in := gempbaStream(10)
	made, err := Import(t.TempDir(), nil, "stream", bytes.NewReader(in))
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	r := runtest.Open(t, made[0])
	var out bytes.Buffer
	if err := Export(t.Context(), &out, r, 0); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(in), out.String()); d != "" {
		t.Errorf("the import and the export (-in +out):\n%s", d)
	}
	if run := r.Run(); run.Node != "n1" || run.State != rt.StateEnded || run.End.Sub(run.Start).Seconds() != 4.5 {
		t.Errorf("the run is %+v", run)
	}
	read := 0
	for s, err := range r.Snapshots(t.Context(), 1, 10) {
		if err != nil {
			t.Fatal(err)
		}
		if s.Node.MemTotal.Valid() {
			read++
		}
	}
	if read != 5 {
		t.Errorf("%d readings of the host, of 5 frames that were sent twice", read)
	}
}

func TestGemPBAThatMakesNoRun(t *testing.T) {
	good := string(gempbaStream(3))
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"nothing": {"\n", nil}, "garbage": {"garbage\n", ErrFormat}, "garbage later": {good + "{}\n", ErrFormat},
		"cut in its first line": {good[:40], ErrCut}, "a newer schema": {good + `{"version":9,"ts":1}` + "\n", ErrVersion},
	} {
		dir := t.TempDir()
		made, err := Import(dir, nil, name, strings.NewReader(c.text))
		left, listErr := spool.List(dir)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || len(made) != 0 || len(left) != 0 || listErr != nil {
			t.Errorf("%s: made %v, %v; left %v, %v", name, made, err, fmt.Sprint(left), listErr)
		}
	}
}

// A recording that ends within a line has the readings before that line, and a note.
func TestRecordingCutInItsLastLine(t *testing.T) {
	in := gempbaStream(3)
	last := bytes.LastIndexByte(in[:len(in)-1], '\n') + 1
	for _, end := range []int{last + 1, len(in) - 9, len(in) - 1} {
		made, err := Import(t.TempDir(), nil, "stream", bytes.NewReader(in[:end]))
		if err != nil || len(made) != 1 {
			t.Fatal(end, made, err)
		}
		r := runtest.Open(t, made[0])
		var out bytes.Buffer
		if err := Export(t.Context(), &out, r, 0); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(in[:last]), out.String()); d != "" {
			t.Errorf("cut at %d, the import has (-want +got):\n%s", end, d)
		}
		notes := 0
		events, err := r.Events()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Kind == "gap" && e.Status == "damaged" && strings.Contains(e.Detail, "in the middle of a line") {
				notes++
			}
		}
		if notes != 1 {
			t.Errorf("cut at %d, %d notes in the ledger", end, notes)
		}
	}
}

// An exported job has the same CPU time, memory and owner after the import.
func TestGemPBAJobExchange(t *testing.T) {
	run, list := runtest.Job()
	run.UID, run.Account, run.Partition = rt.Some[uint64](1000), "physics", "main"
	var out bytes.Buffer
	if err := Export(t.Context(), &out, runtest.Spool(t, run, list[:40]), 0); err != nil {
		t.Fatal(err)
	}
	first := out.String()
	made, err := Import(t.TempDir(), nil, "stream", &out)
	if err != nil {
		t.Fatal(err)
	}
	r := runtest.Open(t, made[0])
	got := r.Run()
	if got.JobID != run.JobID || got.User != run.User || got.UID != run.UID || got.Cluster != run.Cluster || got.Account != run.Account ||
		got.Partition != run.Partition || got.Meta.JobName != run.Meta.JobName || got.Node != run.Node {
		t.Errorf("the run is %+v", got)
	}
	var last rt.JobReading
	for s, err := range r.Snapshots(t.Context(), 1, 40) {
		if err != nil {
			t.Fatal(err)
		}
		last = s.Job
		if s.Seq > 1 && s.Job.MemCurrent != list[s.Seq-1].Job.MemCurrent {
			t.Errorf("reading %d has memory %v, it was %v", s.Seq, s.Job.MemCurrent, list[s.Seq-1].Job.MemCurrent)
		}
	}
	was := list[39].Job.CPUUsage.Or(0)
	if is := last.CPUUsage.Or(0); last.Phase != rt.JobPresent || is < was*999/1000 || is > was*1001/1000 {
		t.Errorf("CPU time %d us, it was %d", is, was)
	}
	out.Reset()
	if err := Export(t.Context(), &out, r, 0); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(first, out.String()); d != "" {
		t.Errorf("the first and the second export (-first +second):\n%s", d)
	}
}

// Only the workers of the first host are counted, and repeated frames count once. The CPU time is
// unknown for a frame without a percentage.
func TestGemPBAWork(t *testing.T) {
	pct := func(id uint32, seq uint64, v float64) WorkerFrame {
		return WorkerFrame{WorkerID: id, SeqNo: rt.Some(seq), ProcessCPUPct: rt.Some(v), ProcessRSSBytes: rt.Some(uint64(id+1) << 20)}
	}
	topology := &Topology{Identities: []Identity{{WorkerID: 0, Hostname: "n1"}, {WorkerID: 1, Hostname: "n1"}, {WorkerID: 2, Hostname: "n2"}}}
	im := importer{run: rt.Run{Identity: rt.Identity{Node: "n1"}}, work: work{seen: map[uint32]seenWorker{}}}
	var got []string
	for i, workers := range [][]WorkerFrame{
		{}, {pct(0, 1, 50), pct(2, 1, 100)}, {pct(0, 1, 50), pct(1, 1, 100), pct(2, 2, 100)},
		{pct(0, 2, 25), {WorkerID: 1, SeqNo: rt.Some[uint64](2)}}, {pct(0, 3, 100), pct(1, 3, 100)},
	} {
		var s rt.Snapshot
		im.setJob(&Envelope{TS: 1000 + 1000*int64(i), Topology: topology, Workers: workers}, &s)
		got = append(got, fmt.Sprintf("%s %d %d", s.Job.Phase, int64(s.Job.CPUUsage.Or(1<<63)), s.Job.MemCurrent.Or(0)>>20))
	}
	want := "pending -9223372036854775808 0, present 500000 1, present 1500000 3, present -9223372036854775808 1, present 5000000 3"
	if strings.Join(got, ", ") != want || im.gaps != 1 || !im.summed {
		t.Errorf("got  %s, %d gaps\nwant %s", strings.Join(got, ", "), im.gaps, want)
	}
}
