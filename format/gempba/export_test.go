package gempba

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/spool"
)

// replayed returns the exported lines of a run.
func replayed(t *testing.T, r *spool.Reader) (lines []*Envelope) {
	t.Helper()
	var out bytes.Buffer
	if err := Export(t.Context(), &out, r, 0); err != nil {
		t.Fatal(err)
	}
	for d := NewDecoder(&out); ; {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, e)
	}
}

func TestExportGemPBAOfTasks(t *testing.T) {
	run, list := runtest.Job()
	list = list[:4]
	task := func(n, micros uint64, ended bool) rt.StepReading {
		return rt.StepReading{Step: "0", Task: rt.Some(n), Ended: ended, CPUUsage: rt.Some(micros), Anon: rt.Some[uint64](100 << 20), Shmem: rt.Some[uint64](1 << 20)}
	}
	list[1].Steps = []rt.StepReading{{Step: "0", CPUUsage: rt.Some[uint64](9e6)}, task(0, 1e6, false), task(1, 0, false)}
	list[2].Steps = []rt.StepReading{task(1, 2_500_000, false), task(0, 11e6, false)}
	list[3].Steps = []rt.StepReading{task(1, 2_500_000, true)}
	list[2].Procs = []rt.ProcessReading{{PID: 70, Step: "0", Task: rt.Some[uint64](1)}, {PID: 69, Step: "0", Task: rt.Some[uint64](1)}}
	list[2].Node.MemTotal, list[2].Job.MemLimit = rt.Some[uint64](1<<40), rt.Some(rt.Unlimited)
	var got []string
	for _, e := range replayed(t, runtest.Spool(t, run, list)) {
		line := fmt.Sprint(e.TS-list[0].Wall/1e6, ":")
		for _, w := range e.Workers {
			line += fmt.Sprintf(" %d #%d %.0f%% %d MiB", w.WorkerID, w.SeqNo.Or(0), w.ProcessCPUPct.Or(-1), w.ProcessRSSBytes.Or(0)>>20)
		}
		got = append(got, line)
		if e.Nodes[0].CgroupMemLimitBytes.Valid() || e.Nodes[0].Hostname != "n7" || e.Nodes[0].Net.BytesIn.Valid() {
			t.Errorf("the node is %+v", e.Nodes[0])
		}
		if e.TS == list[3].Wall/1e6 && (e.Topology.Identities[1].PID != rt.Some[int64](69) || e.Topology.Identities[0].PID.Valid() || len(e.Topology.Nodes[0].WorkerIDs) != 2) {
			t.Errorf("the topology is %+v", e.Topology)
		}
	}
	want := "0:, 10030: 0 #1 10% 101 MiB 1 #1 0% 101 MiB, 20060: 0 #2 100% 101 MiB 1 #2 25% 101 MiB, 30090: 1 #3 0% 101 MiB"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
}

func TestExportGemPBAOfAJobWithoutTasks(t *testing.T) {
	run, list := runtest.Job()
	lines := replayed(t, runtest.Spool(t, run, list))
	if len(lines) != len(list) || len(lines[0].Workers) != 0 {
		t.Fatalf("%d lines, the first %+v", len(lines), lines[0])
	}
	for i, e := range lines[2:] {
		pct, ok := e.Workers[0].ProcessCPUPct.Get()
		if read := list[i+2].Job.CPUUsage.Valid(); ok != read || ok && (pct < 145 || pct > 155) {
			t.Errorf("line %d: %v %%, read %t", i+2, pct, read)
		}
	}
}

// Stored lines of a GemPBA program are exported unchanged.
func TestExportGemPBAOfStoredLines(t *testing.T) {
	dir := t.TempDir()
	run, list := runtest.Job()
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Put(&list[0]); err != nil {
		t.Fatal(err)
	}
	for i, topology := range []string{`{"nodes":[],"identities":[{"hostname":"n9"}]}`, "null", "null"} {
		body := fmt.Appendf(nil, `{"version":1,"ts":%d,"elapsed_seconds":0,"topology":%s,"workers":[{"worker_id":0,"tasks_sent_total":%d}],"nodes":[]}`, 1000*i, topology, i)
		if err := w.Record(rt.ForeignReport{Time: int64(i), Source: "gempba", Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	r := runtest.Open(t, w.Path())
	lines := replayed(t, r)
	if len(lines) != 3 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, e := range lines {
		if e.TS != int64(1000*i) || e.Workers[0].TasksSentTotal.Or(99) != uint64(i) || e.Topology.Identities[0].Hostname != "n9" {
			t.Errorf("line %d: %+v", i, e)
		}
	}
}

func TestReplayAtSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := pacer{w: &out, speed: 4}
		began := time.Now()
		for _, ts := range []int64{5000, 7000, 6000, 9000} { // a clock that was set back causes no wait
			if err := p.write(t.Context(), &Envelope{TS: ts}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != time.Second || bytes.Count(out.Bytes(), []byte("\n")) != 4 {
			t.Errorf("4 s at speed 4 took %s: %s", took, &out)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.write(ctx, &Envelope{TS: 99000}); err == nil {
			t.Error("the replay goes on after the context has ended")
		}
	})
}
