//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/format/gempba"
)

// talk is a task that sends one MiB more than its rank to the next task, and then waits.
// The tasks find each other by one file each.
const talk = `
import os, socket, sys, threading, time
where, address, rank, n = sys.argv[1], sys.argv[2], int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
l = socket.create_server((address, 0))
with open(f"{where}.{rank}.new", "w") as f:
    f.write(str(l.getsockname()[1]))
os.rename(f"{where}.{rank}.new", f"{where}.{rank}")
to = f"{where}.{(rank + 1) % n}"
while not os.path.exists(to):
    time.sleep(0.05)
out = socket.create_connection((address, int(open(to).read())))
back, _ = l.accept()
threading.Thread(target=out.sendall, args=(bytes((rank + 1) << 20),)).start()
left = ((rank - 1) % n + 1) << 20
while left:
    left -= len(back.recv(min(left, 1 << 20)))
time.sleep(600)
`

// runTraffic runs tasks that send to each other, on one node and between nodes. It checks the sender, the receiver
// and the bytes of each edge.
func runTraffic(t *testing.T, c *cluster, s *site) {
	program, socket := s.path("out", "talk.py"), s.path("out", "traffic")
	if err := os.WriteFile(program, []byte(talk), 0o644); err != nil {
		t.Fatal(err)
	}
	id := c.submit(t, s, s.path("bin", "rt-spool")+" live --job --listen unix:"+socket+" $SLURM_JOB_ID &\n"+
		"srun -O -n4 --ntasks-per-node=2 /usr/bin/python3 "+program+" "+s.path("out", "port")+" "+addressOf(t), "-N2", "--ntasks-per-node=1", "--mem=200", "-s", "-J", "talk")
	defer c.root(t, "scancel", strconv.FormatInt(id, 10))
	v := &viewer{t: t, c: c, s: s, job: id}
	v.connect(socket, 4)
	const want = "0>1 1 1>2 2 2>3 3 3>0 4 "
	got := ""
	defer func() {
		if got != want {
			t.Errorf("the edges are %q, in MiB; want %q; the job printed %q", got, want, s.output(t, id))
		}
	}()
	until(t, "the tasks' traffic", func() bool {
		got = edgesOf(t, v.next(t).Workers)
		return got == want || strings.Count(got, ">") > 4
	})
}

// edgesOf formats the edges as sender, receiver and MiB. Ids follow the order of the ranks,
// but do not always start at 0.
func edgesOf(t *testing.T, workers []gempba.WorkerFrame) (text string) {
	t.Helper()
	rank := func(id uint32) int {
		return slices.IndexFunc(workers, func(w gempba.WorkerFrame) bool { return w.WorkerID == id })
	}
	for _, w := range workers {
		for _, e := range w.EdgesOut {
			if text += fmt.Sprintf("%d>%d %v ", rank(w.WorkerID), rank(e.To), float64(e.Bytes)/(1<<20)); e.Count == 0 {
				t.Errorf("worker %d has sent no packet: %+v", w.WorkerID, e)
			}
		}
	}
	return text
}

// addressOf returns an address of this machine that is not loopback: the nodes are one
// machine, and loopback traffic has no other node.
func addressOf(t *testing.T) string {
	t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	t.Fatal("this machine has no address but loopback")
	return ""
}
