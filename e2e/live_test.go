//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/format/gempba"
)

// TestLive watches a job of 8 tasks on two nodes while it runs: on a terminal, and as one telemetry stream from the
// job's user.
func TestLive(t *testing.T) {
	s := newSite(t, workDir(t))
	s.base = map[string]string{"tracker.budget_cpu": "20.0"} // on a busy machine a tracker over its budget reads no steps
	s.configure(nil)
	c := lab(t, s)
	socket := s.path("out", "live")
	id := c.submit(t, s, s.path("bin", "rt-spool")+" live --job --listen unix:"+socket+" $SLURM_JOB_ID &\n"+
		"srun -O -n8 --ntasks-per-node=4 "+s.workload()+" --cpu 3600 --touch 25", "-N2", "--ntasks-per-node=1", "--mem=300", "-J", "eight")
	until(t, "the job's tasks", func() bool { return len(pidsOf(t, s.workload(), id)) == 16 }) // each has a child
	v := &viewer{t: t, c: c, s: s, job: id}
	v.connect(socket, 8)
	t.Run("picture", v.picture)
	t.Run("figures", v.figures)
	t.Run("channel", v.channel)
	t.Run("program", func(t *testing.T) { v.program(t, socket) })
	t.Run("traffic", func(t *testing.T) { runTraffic(t, c, s) })
	t.Run("terminal", v.terminal) // the job ends in this subtest
	t.Run("end", v.end)
	c.healthy(t)
}

// viewer is a client of the job's telemetry.
type viewer struct {
	t     *testing.T
	c     *cluster
	s     *site
	job   int64
	lines chan *gempba.Envelope // closed at the end of the stream
	err   error                 // why the stream ended
	whole *gempba.Envelope      // a line that has both nodes
}

// connect waits until both nodes are in the stream, with the given number of tasks.
func (v *viewer) connect(socket string, tasks int) {
	v.t.Helper()
	var conn net.Conn
	until(v.t, "the telemetry server to listen", func() bool {
		var err error
		conn, err = net.Dial("unix", socket)
		return err == nil
	})
	v.lines = make(chan *gempba.Envelope, 64)
	v.t.Cleanup(func() {
		conn.Close()
		for range v.lines { // until read has ended
		}
	})
	go v.read(gempba.NewDecoder(conn))
	seen, again := "", 0
	defer func() {
		if v.t.Failed() {
			v.t.Logf("the nodes and workers of the newest line: %s; the job printed %q", seen, v.s.output(v.t, v.job))
		}
	}()
	until(v.t, "the other node's tasks", func() bool {
		v.whole = v.next(v.t)
		seen = fmt.Sprintf("%+v, %+v", v.whole.Nodes, v.whole.Workers)
		all := v.whole.Topology
		whole := len(v.whole.Nodes) == 2 && len(v.whole.Workers) == tasks && all != nil && len(all.Identities) == tasks
		if again++; !whole {
			again = 0
		}
		return again == 5 // lines have the nodes several times in a row
	})
}

// read receives the lines at the rate of the server, which drops slow clients. Of the lines
// that were not used yet it keeps the newest.
func (v *viewer) read(d *gempba.Decoder) {
	defer close(v.lines)
	for {
		e, err := d.Next()
		if err != nil {
			v.err = err
			return
		}
		if len(v.lines) == cap(v.lines) {
			select {
			case <-v.lines:
			default: // next has just taken one
			}
		}
		v.lines <- e
	}
}

func (v *viewer) next(t *testing.T) *gempba.Envelope {
	t.Helper()
	e, ok := <-v.lines
	if !ok {
		t.Fatalf("%v; the job printed %q", v.err, v.s.output(t, v.job))
	}
	return e
}

// picture compares a line with the output of lscpu and taskset.
func (v *viewer) picture(t *testing.T) {
	e := v.whole
	if e.Topology == nil || len(e.Topology.Identities) != 8 || len(e.Topology.Nodes) != 2 {
		t.Fatalf("the topology is %+v", e.Topology)
	}
	cores, sockets, logical := map[string]bool{}, map[string][]uint32{}, uint64(0)
	for _, l := range lines(command(t, "lscpu", "--parse=CPU,CORE,SOCKET")) {
		f := strings.Split(l, ",")
		if cpu, err := strconv.ParseUint(f[0], 10, 32); err == nil {
			logical++
			cores[f[1]+"/"+f[2]] = true
			sockets[f[2]] = append(sockets[f[2]], uint32(cpu))
		}
	}
	for i, n := range e.Topology.Nodes {
		if n.Hostname != v.c.nodes[i] || n.TotalLogicalCores.Or(0) != logical || n.TotalPhysicalCores.Or(0) != uint64(len(cores)) || len(n.WorkerIDs) != 4 {
			t.Errorf("node %d is %+v; lscpu has %d CPUs of %d cores", i, n, logical, len(cores))
		}
		for _, socket := range n.Sockets {
			if is := sockets[fmt.Sprint(socket.SocketID)]; !slices.Equal(socket.CPUIDs, is) {
				t.Errorf("socket %d of %s has the CPUs %v; lscpu has %v", socket.SocketID, n.Hostname, socket.CPUIDs, is)
			}
		}
		if len(n.Sockets) != len(sockets) || !slices.Contains(n.WorkerIDs, n.SentinelWorkerID) || !slices.Contains(n.WorkerIDs, e.Nodes[i].SentinelWorkerID) {
			t.Errorf("%s: %+v and %+v; lscpu has %d sockets", n.Hostname, n, e.Nodes[i], len(sockets))
		}
	}
	workers, pids := map[uint32]bool{}, map[int64]bool{}
	for _, i := range e.Topology.Identities {
		workers[i.WorkerID], pids[i.PID.Or(0)] = true, true
		mask := command(t, "taskset", "-p", strconv.FormatInt(i.PID.Or(0), 10))
		if !strings.HasSuffix(mask, ": "+gempba.Mask(i.AllowedCPUs)) {
			t.Errorf("worker %d may use %v; %s", i.WorkerID, i.AllowedCPUs, mask)
		}
		if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", i.PID.Or(0))); err != nil || !strings.Contains(string(env), "\x00SLURMD_NODENAME="+i.Hostname+"\x00") {
			t.Errorf("worker %d is on %s; its process says %q, %v", i.WorkerID, i.Hostname, env, err)
		}
	}
	if len(workers) != 8 || len(pids) != 8 {
		t.Errorf("8 tasks are the workers %v, the processes %v", workers, pids)
	}
}

// channel checks how the other node is reached: by a step of the job, as its user.
func (v *viewer) channel(t *testing.T) {
	id := strconv.FormatInt(v.job, 10)
	steps := v.c.root(t, "squeue", "-s", "-h", "-j", id, "-o", "%i %j %u %N")
	if !regexp.MustCompile(`(?m)^` + id + `\.\d+ eight ` + v.c.user + ` ` + v.c.nodes[1] + `$`).MatchString(steps) {
		t.Errorf("the steps are %q", steps)
	}
	owner := command(t, "id", "-u", v.c.user)
	there := 0
	for _, pid := range pidsOf(t, v.s.path("bin", "rt-spool"), v.job) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(status), "\nUid:\t"+owner+"\t") {
			t.Errorf("process %d: %v, %s", pid, err, status)
		}
		there++
	}
	if there != 2 {
		t.Errorf("%d of rt-spool in the job", there)
	}
	if out := v.s.output(t, v.job); out != "listening on unix:"+v.s.path("out", "live")+"\n" {
		t.Errorf("the job printed %q", out)
	}
}

// step returns the number of the step in which a program runs.
func (v *viewer) step(t *testing.T, program string) string {
	t.Helper()
	id := strconv.FormatInt(v.job, 10)
	steps := v.c.root(t, "squeue", "-s", "-h", "-j", id, "-o", "%i %j")
	m := regexp.MustCompile(`(?m)^` + id + `\.(\d+) ` + program + `$`).FindStringSubmatch(steps)
	if m == nil {
		t.Fatalf("no step is %s: %q", program, steps)
	}
	return m[1]
}

// end checks that the telemetry ends with its job.
func (v *viewer) end(t *testing.T) {
	v.c.wait(t, v.job)
	until(t, "its programs to end", func() bool { return len(pidsOf(t, v.s.path("bin", "rt-spool"), v.job)) == 0 })
	for range v.lines {
	}
	if !errors.Is(v.err, io.EOF) && !errors.Is(v.err, gempba.ErrCut) { // Slurm kills processes that remain
		t.Error(v.err)
	}
}

// program watches the workers on a terminal: their identities, the nodes, the sockets.
func (v *viewer) program(t *testing.T, socket string) {
	first, second := v.c.nodes[0], v.c.nodes[1]
	top := onScreen(t, v.s.path("bin", "rt-spool"), "top", "--connect", "unix:"+socket)
	top.shows("", `8 workers on 2 nodes`, `^> +0 `+first+` +\d+ +\d+ +[1-9][\d.]* +2\d\.\dM +2 `, `^ +\d+ `+second+` `)
	top.shows("s", `\*`)
	top.shows("2", `\[2 nodes\]`, `^> `+first+` +4 +\d+ `, `^  `+second+` +4 +\d+ `)
	top.shows("3", `\[3 sockets\]`, `^> `+first+` +0 `)
	top.shows("5", `\[5 matrix\]`)
	top.shows("1", `\[1 workers\]`)
	top.quit()
}

// terminal watches the job on a terminal, until it has ended.
func (v *viewer) terminal(t *testing.T) {
	top := onScreen(t, v.s.path("bin", "rt-spool"), "--config", v.s.config(), "top")
	id, step := strconv.FormatInt(v.job, 10), v.step(t, "workload")
	top.shows("", `4 runs, 2 running`, `^> `+id+` +`+v.c.user+` +running`)
	top.shows("\r", `^Job `+id+` +eight +`+v.c.user+` +(`+strings.Join(v.c.nodes, "|")+`) +running`, `newest`, `^Memory +\d`)
	top.shows("2", `\[2 steps\]`, `^[> ] `+step+` +0 +running`, `^[> ] `+step+` +3 +running`)
	top.shows("3", `\[3 processes\]`, ` workload`)
	top.shows("1", `\[1 job\]`)
	v.c.root(t, "scancel", id)
	top.shows("", `^Job `+id+` .*(cancelled|terminated|unknown)`, `end`)
	top.shows("t5\r", // the latest reading: on a busy machine not the fifth
		`0:00:0[1-5] of .*PAUSED`)
	top.shows("\x1b", `0 running`)
	top.quit()
}
