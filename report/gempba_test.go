package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

func TestGemPBAText(t *testing.T) {
	s := Summary{GemPBA: &GemPBA{
		Lines: 412, Hosts: 2, TasksLocal: u(8123), TasksSent: u(40), TasksRecv: u(40), MaxRunning: u(6), IdlePct: rt.Some(12.34),
		SentBytes: 3 << 20, SentCount: 40, Edges: []GemPBAEdge{{From: 0, To: 3, Bytes: 2 << 20, Count: 30}},
		Workers: []GemPBAWorker{{ID: 0, TasksLocal: u(8000)}, {ID: 3, TasksLocal: u(8100), TasksRecv: u(40)}},
	}}
	p := page{}
	p.gempba(&s)
	want := []string{
		"GemPBA       2 workers on 2 hosts, 412 lines kept; idle 12.3 %",
		"  tasks      8123 local, 40 sent, 40 received; at most 6 running, - waiting",
		"  traffic    3.00 MiB in 40; most from 0 to 3: 2.00 MiB in 30",
		"             most tasks: worker 3, 8100 local and 40 received",
	}
	if got := strings.Split(strings.TrimSpace(p.String()), "\n"); !slices.Equal(got, want) {
		t.Errorf("got\n%s", p.String())
	}
	if p = (page{}); true {
		p.gempba(&Summary{})
	}
	if p.String() != "" {
		t.Errorf("of no program: %q", p.String())
	}
}
