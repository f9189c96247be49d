package top

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba"
)

// programPages are the views of a program that broadcasts its frames.
var programPages = []struct {
	title string
	make  func(p *Program, first int, b brush) page
}{
	{"workers", workersPage},
	{"nodes", nodesPage},
	{"sockets", socketsPage},
	{"traffic", trafficPage},
	{"matrix", matrixPage},
}

const pageMatrix = 4

func workersPage(p *Program, _ int, b brush) page {
	ran := 0 // rank of columns without values: rt-spool live broadcasts no tasks
	if !slices.ContainsFunc(p.newest.Workers, func(f gempba.WorkerFrame) bool { return f.TasksLocalTotal.Valid() || f.TasksRunning.Valid() }) {
		ran = 7
	}
	out := page{
		name: "workers", empty: "no worker has sent a frame yet",
		columns: []column{
			{"ID", "worker_id", 4, 0, false}, {"HOST", "hostname", 6, 1, true}, {"PID", "pid", 7, 3, false}, {"CPUS", "allowed_cpus", 4, 5, false},
			{"CPU%", "process_cpu_pct", 6, 0, false}, {"RSS", "process_rss_bytes", 5, 0, false}, {"THR", "process_threads", 4, 4, false},
			{"RUN", "tasks_running", 4, ran, false}, {"WAIT", "scheduler_pending_count", 4, ran, false}, {"LOCAL/s", "tasks_local_per_sec", 7, ran, false},
			{"SENT/s", "tasks_sent_per_sec", 6, ran, false}, {"RECV/s", "tasks_recv_per_sec", 6, ran, false}, {"IDLE%", "idle_pct", 5, ran, false},
			{"LOCAL", "tasks_local_total", 5, 6, false}, {"SENT", "tasks_sent_total", 5, 6, false}, {"RECV", "tasks_recv_total", 5, 6, false}, {"CPU", "", 0, 2, true},
		},
	}
	for _, f := range p.newest.Workers {
		w := p.workers[f.WorkerID]
		if w == nil {
			continue
		}
		c, q, secs := &w.cur, &w.prev, w.secs()
		worker := p.topology().Identity(f.WorkerID)
		cpus := cell{text: notRead}
		if worker.AllowedCPUs != nil {
			cpus = number(rt.Some(float64(len(worker.AllowedCPUs))), decimal)
		}
		out.rows = append(out.rows, row{id: fmt.Sprint(f.WorkerID), cells: []cell{
			name(rt.Some(uint64(f.WorkerID))), word(worker.Hostname), number(rt.Scaled(worker.PID, 1), decimal), cpus,
			number(c.ProcessCPUPct, percent), bytesOf(c.ProcessRSSBytes), count(c.ProcessThreads), count(c.TasksRunning), count(c.PendingCount),
			number(perSecond(q.TasksLocalTotal, c.TasksLocalTotal, secs), bigNumber), number(perSecond(q.TasksSentTotal, c.TasksSentTotal, secs), bigNumber),
			number(perSecond(q.TasksRecvTotal, c.TasksRecvTotal, secs), bigNumber),
			number(rt.Scaled(perSecond(q.IdleMicros, c.IdleMicros, secs), 1e-4), percent),
			count(c.TasksLocalTotal), count(c.TasksSentTotal), count(c.TasksRecvTotal),
			{draw: func(n int) string { return b.spark(w.cpu, 0, n) }},
		}})
	}
	return out
}

// topology returns the program's last topology, an empty one if there is none.
func (p *Program) topology() *gempba.Topology {
	return cmp.Or(p.newest.Topology, &gempba.Topology{})
}

func nodesPage(p *Program, _ int, _ brush) page {
	out := page{
		name: "nodes", empty: "no host has sent a frame yet",
		columns: []column{
			{"HOST", "hostname", 8, 0, true}, {"SENTINEL", "sentinel_worker_id", 8, 3, false}, {"WORKERS", "workers", 7, 0, false}, {"CORES", "logical_cores", 5, 1, false},
			{"USED", "mem_used_bytes", 6, 0, false}, {"OF", "mem_total_bytes", 5, 0, false}, {"CGROUP", "cgroup_mem_used_bytes", 6, 1, false},
			{"LIMIT", "cgroup_mem_limit_bytes", 5, 1, false}, {"IN/s", "net_in_bytes_per_sec", 5, 0, false}, {"OUT/s", "net_out_bytes_per_sec", 5, 0, false},
			{"READ/s", "read_bytes_per_sec", 6, 0, false}, {"WRIT/s", "write_bytes_per_sec", 6, 0, false},
		},
	}
	for _, f := range p.newest.Nodes {
		h := p.hosts[f.Hostname]
		if h == nil {
			continue
		}
		c, q, secs := &h.cur, &h.prev, h.secs()
		used := rt.None[uint64]()
		if total, ok := c.MemTotalBytes.Get(); ok && c.MemAvailBytes.Or(total+1) <= total {
			used.Set(total - c.MemAvailBytes.Or(0))
		}
		workers := rt.None[float64]()
		for _, n := range p.topology().Nodes {
			if n.Hostname == f.Hostname {
				workers.Set(float64(len(n.WorkerIDs)))
			}
		}
		out.rows = append(out.rows, row{id: f.Hostname, cells: []cell{
			word(f.Hostname), name(rt.Some(uint64(f.SentinelWorkerID))), number(workers, decimal), count(c.LogicalCores),
			bytesOf(used), bytesOf(c.MemTotalBytes), bytesOf(c.CgroupMemUsedBytes), bytesOf(c.CgroupMemLimitBytes),
			number(perSecond(q.Net.BytesIn, c.Net.BytesIn, secs), size), number(perSecond(q.Net.BytesOut, c.Net.BytesOut, secs), size),
			number(perSecond(q.Disk.ReadBytes, c.Disk.ReadBytes, secs), size), number(perSecond(q.Disk.WriteBytes, c.Disk.WriteBytes, secs), size),
		}})
	}
	return out
}

func socketsPage(p *Program, _ int, b brush) page {
	out := page{
		name: "sockets", empty: "no host reports its sockets",
		columns: []column{
			{"HOST", "hostname", 8, 0, true}, {"SOCKET", "socket_id", 6, 0, false}, {"MODEL", "name", 12, 1, true}, {"CORES", "logical_cores", 5, 1, false},
			{"CPU%", "cpu_pct", 6, 0, false}, {"USED", "mem_used_bytes", 5, 0, false}, {"OF", "mem_total_bytes", 5, 0, false}, {"", "", 0, 2, true},
		},
	}
	for _, f := range p.newest.Nodes {
		for _, s := range f.Sockets {
			model := p.socket(f.Hostname, s.SocketID)
			out.rows = append(out.rows, row{id: fmt.Sprint(f.Hostname, "/", s.SocketID), cells: []cell{
				word(f.Hostname), name(rt.Some(uint64(s.SocketID))), word(model.Name), count(model.LogicalCores), number(s.CPUPct, percent),
				bytesOf(s.MemUsedBytes), bytesOf(s.MemTotalBytes), {draw: func(n int) string { return b.bar(s.CPUPct, n) }},
			}})
		}
	}
	return out
}

func (p *Program) socket(host string, id uint32) gempba.Socket {
	for _, n := range p.topology().Nodes {
		for _, s := range n.Sockets {
			if n.Hostname == host && s.SocketID == id {
				return s
			}
		}
	}
	return gempba.Socket{}
}

// trafficPage shows the edges, the heaviest first.
func trafficPage(p *Program, _ int, _ brush) page {
	out := page{
		name: "traffic", empty: "no worker has sent anything to another one",
		columns: []column{
			{"FROM", "from", 5, 0, false}, {"TO", "to", 5, 0, false}, {"BYTES", "bytes", 6, 0, false}, {"COUNT", "count", 6, 0, false},
			{"BYTES/s", "bytes_per_sec", 7, 0, false}, {"COUNT/s", "count_per_sec", 7, 0, false}, {"HOSTS", "hosts", 16, 1, true},
		},
	}
	for _, w := range p.sorted() {
		for _, e := range w.cur.EdgesOut {
			q := find(w.prev.EdgesOut, func(b *gempba.Edge) bool { return b.To == e.To }) // one that did not exist had sent nothing
			hosts := strings.TrimSpace(p.topology().Identity(w.cur.WorkerID).Hostname + " > " + p.topology().Identity(e.To).Hostname)
			if hosts == ">" {
				hosts = ""
			}
			out.rows = append(out.rows, row{id: fmt.Sprint(w.cur.WorkerID, ">", e.To), cells: []cell{
				name(rt.Some(uint64(w.cur.WorkerID))), name(rt.Some(uint64(e.To))), bytesOf(rt.Some(e.Bytes)), count(rt.Some(e.Count)),
				number(perSecond(rt.Some(q.Bytes), rt.Some(e.Bytes), w.secs()), size), number(perSecond(rt.Some(q.Count), rt.Some(e.Count), w.secs()), bigNumber), word(hosts),
			}})
		}
	}
	slices.SortStableFunc(out.rows, func(a, b row) int { return compare(b.cells[2].value, a.cells[2].value) })
	return out
}

func (p *Program) sorted() []*worker {
	return slices.SortedFunc(maps.Values(p.workers), func(a, b *worker) int { return cmp.Compare(a.cur.WorkerID, b.cur.WorkerID) })
}

// matrixPage shows the bytes between workers: a row for each sender and a column for
// each receiver, beginning with the receiver first.
func matrixPage(p *Program, first int, _ brush) page {
	out := page{name: "matrix", empty: "no workers", columns: []column{{"FROM", "from", 4, 0, false}, {"ALL", "all", 6, 0, false}}}
	to := slices.Collect(maps.Keys(p.workers))
	for _, w := range p.workers {
		for _, e := range w.cur.EdgesOut {
			to = append(to, e.To)
		}
	}
	slices.Sort(to)
	to = slices.Compact(to)
	first = min(max(first, 0), max(len(to)-1, 0))
	out.head = []string{fmt.Sprintf("Bytes sent, from the row to the column; %d columns, from number %d (left, right)", len(to), first+1)}
	for i, id := range to[first:] {
		out.columns = append(out.columns, column{fmt.Sprint(id), fmt.Sprint(id), 5, i + 1, false})
	}
	for _, w := range p.sorted() {
		sum := uint64(0)
		sent := map[uint32]uint64{}
		for _, e := range w.cur.EdgesOut {
			sent[e.To] = e.Bytes
			sum += e.Bytes
		}
		all := cell{text: "·"} // nothing was sent, or that is unknown
		if len(sent) > 0 {
			all = bytesOf(rt.Some(sum))
		}
		cells := []cell{name(rt.Some(uint64(w.cur.WorkerID))), all}
		for _, id := range to[first:] {
			c := cell{text: "·"}
			if v, ok := sent[id]; ok {
				c = bytesOf(rt.Some(v))
			}
			cells = append(cells, c)
		}
		out.rows = append(out.rows, row{id: fmt.Sprint(w.cur.WorkerID), cells: cells})
	}
	return out
}

// headline summarizes a program's last line.
func (p *Program) headline(where string) string {
	e := p.newest
	t := fmt.Sprintf("%s  %d workers on %d nodes  %s", where, len(e.Workers), len(e.Nodes), span(float64(e.ElapsedSeconds)))
	if e.Topology == nil {
		t += "  without topology"
	}
	return t
}
