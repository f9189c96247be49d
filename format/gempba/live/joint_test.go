package live

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt/format/gempba"
)

// two is a node of two workers, 0 and 5.
func two(host string) *gempba.Envelope {
	return &gempba.Envelope{
		Version: 1,
		Topology: &gempba.Topology{
			Nodes:      []gempba.TopologyNode{{Hostname: host, SentinelWorkerID: 5, WorkerIDs: []uint32{0, 5}}},
			Identities: []gempba.Identity{{WorkerID: 0, Hostname: host}, {WorkerID: 5, Hostname: host}},
		},
		Workers: []gempba.WorkerFrame{{WorkerID: 0, EdgesOut: []gempba.Edge{{To: 5, Bytes: 1, Count: 1}, {To: 9, Bytes: 1, Count: 1}}}, {WorkerID: 5}},
		Nodes:   []gempba.NodeFrame{{Hostname: host, SentinelWorkerID: 5}},
	}
}

// here is that node as a source.
type here struct {
	*gempba.Envelope
	promoted []uint32
}

func (h *here) Workers(time.Time) []gempba.WorkerFrame { return h.Envelope.Workers }
func (h *here) Nodes(time.Time) []gempba.NodeFrame     { return h.Envelope.Nodes }
func (h *here) Topology() *gempba.Topology             { return h.Envelope.Topology }
func (h *here) Promote(worker uint32)                  { h.promoted = append(h.promoted, worker) }

func look(j *Joint) string {
	var out strings.Builder
	for _, w := range j.Workers(time.Now()) {
		fmt.Fprintf(&out, "%d%v ", w.WorkerID, w.EdgesOut)
	}
	for _, n := range j.Nodes(time.Now()) {
		fmt.Fprintf(&out, "%s/%d ", n.Hostname, n.SentinelWorkerID)
	}
	t := j.Topology()
	for _, n := range t.Nodes {
		fmt.Fprintf(&out, "%s%v ", n.Hostname, n.WorkerIDs)
	}
	for _, i := range t.Identities {
		fmt.Fprintf(&out, "%d%s ", i.WorkerID, i.Hostname)
	}
	return strings.TrimSpace(out.String())
}

func TestJoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := &here{Envelope: two("n1")}
		j := NewJoint(local, func(err error) { t.Error(err) })
		alone := "0[{1 1 1}] 1[] n1/1 n1[0 1] 0n1 1n1"
		if d := cmp.Diff(alone, look(j)); d != "" {
			t.Errorf("alone (-want +got):\n%s", d)
		}
		line, err := gempba.AppendLine(nil, two("n2"))
		if err != nil {
			t.Fatal(err)
		}
		r, w := io.Pipe()
		done := make(chan error)
		go func() { done <- j.Read(t.Context(), "n2", r) }()
		_, _ = w.Write(line)
		synctest.Wait()
		want := "0[{1 1 1}] 1[] 2[{3 1 1}] 3[] n1/1 n2/3 n1[0 1] n2[2 3] 0n1 1n1 2n2 3n2"
		if d := cmp.Diff(want, look(j)); d != "" {
			t.Errorf("with another node (-want +got):\n%s", d)
		}
		j.Promote(1)
		j.Promote(3)
		if !cmp.Equal(local.promoted, []uint32{5}) {
			t.Errorf("promoted %v here", local.promoted)
		}
		_, _ = w.Write([]byte("garbage\n"))
		if err := <-done; err == nil || !strings.Contains(err.Error(), "node n2 is left out") {
			t.Errorf("garbage of the other node: %v", err)
		}
		if d := cmp.Diff(alone, look(j)); d != "" {
			t.Errorf("when the other node is gone (-want +got):\n%s", d)
		}
	})
}

func TestJointBeyondTheLimit(t *testing.T) {
	warned := 0
	j := NewJoint(&here{Envelope: two("n1")}, func(error) { warned++ })
	e := &gempba.Envelope{}
	for id := range uint32(gempba.MaxWorkers) {
		e.Workers = append(e.Workers, gempba.WorkerFrame{WorkerID: id})
	}
	j.set("n2", e)
	for range 2 {
		if got := len(j.Workers(time.Now())); got != gempba.MaxWorkers || warned != 1 {
			t.Errorf("%d workers, %d warnings", got, warned)
		}
	}
	e.Workers = e.Workers[:10]
	j.Workers(time.Now())
	e.Workers = append(e.Workers, gempba.WorkerFrame{WorkerID: 77})
	if got := len(j.Workers(time.Now())); got != 13 {
		t.Errorf("%d workers once there is room", got)
	}
}

// A node frame with a worker that has ended still represents the node.
func TestSentinelThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := NewJoint(&here{Envelope: two("n1")}, func(err error) { t.Error(err) })
		there := two("n2")
		there.Nodes[0].SentinelWorkerID = 4
		j.set("n2", there)
		j.Workers(time.Now())
		if n := j.Nodes(time.Now()); len(n) != 2 || n[1].Hostname != "n2" || n[1].SentinelWorkerID != 2 {
			t.Errorf("nodes %+v", n)
		}
	})
}
