package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/spool"
)

func gempbaStream(n int) []byte {
	var out []byte
	for i := range n {
		e := &gempba.Envelope{
			Version: 1, TS: 1717180000000 + int64(i)*500, ElapsedSeconds: uint64(i / 2),
			Topology: &gempba.Topology{Nodes: []gempba.TopologyNode{{Hostname: "n1"}, {Hostname: "n2", SentinelWorkerID: 1}}},
			Workers:  []gempba.WorkerFrame{{WorkerID: 0, TasksLocalTotal: rt.Some(uint64(7 * i))}},
			Nodes: []gempba.NodeFrame{
				{Hostname: "n1", SentinelLocalMS: rt.Some(int64(i / 2)), MemTotalBytes: rt.Some[uint64](1 << 30), Net: gempba.NetAggregate{BytesIn: rt.Some(uint64(i / 2 * 1000))}},
				{Hostname: "n2", SentinelWorkerID: 1},
			},
		}
		out, _ = gempba.AppendLine(out, e)
	}
	return out
}

// A broadcast that comes in goes out as it was.
func TestGemPBAExchange(t *testing.T) {
	in := gempbaStream(10)
	made, err := importGemPBA(t.TempDir(), "stream", bytes.NewReader(in))
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	r := opened(t, made[0])
	var out bytes.Buffer
	if err := exportGemPBA(t.Context(), &out, r, rt.ScopeNode); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(in), out.String()); d != "" {
		t.Errorf("what came in and went out (-in +out):\n%s", d)
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
		"nothing": {"\n", nil}, "garbage": {"garbage\n", gempba.ErrFormat}, "garbage later": {good + "{}\n", gempba.ErrFormat},
		"cut": {good[:len(good)-9], gempba.ErrCut}, "a newer schema": {good + `{"version":9,"ts":1}` + "\n", gempba.ErrVersion},
	} {
		dir := t.TempDir()
		made, err := importGemPBA(dir, name, strings.NewReader(c.text))
		left, listErr := spool.List(dir)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || len(made) != 0 || len(left) != 0 || listErr != nil {
			t.Errorf("%s: made %v, %v; left %v, %v", name, made, err, fmt.Sprint(left), listErr)
		}
	}
}
