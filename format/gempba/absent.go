package gempba

import (
	"slices"

	"github.com/resource-tracker/rt"
)

// Clients of GemPBA expect a number in each numeric field. A value that was not read is therefore
// written as 0, as GemPBA does for unknown values. The list "rt_unread" of the same object has the
// name of the field, and Parse makes the value absent again.

// figure is a number of a frame and its name in JSON.
type figure struct {
	name  string
	value interface { // a *rt.Opt
		Valid() bool
		Clear()
		UnmarshalJSON([]byte) error
	}
}

// zeroUnread sets absent values to 0 and returns their names.
func zeroUnread(figures []figure) (names []string) {
	for _, f := range figures {
		if !f.value.Valid() {
			_ = f.value.UnmarshalJSON([]byte("0")) // all figures are numbers
			names = append(names, f.name)
		}
	}
	return names
}

// clearUnread makes the named values absent.
func clearUnread(figures []figure, names []string) {
	for _, f := range figures {
		if slices.Contains(names, f.name) {
			f.value.Clear()
		}
	}
}

// number prepares absent values for the line; restore reverts that.
func (w *WorkerFrame) number()  { w.Unread = zeroUnread(w.figures()) }
func (w *WorkerFrame) restore() { clearUnread(w.figures(), w.Unread); w.Unread = nil }
func (n *NodeFrame) number()    { n.Unread = zeroUnread(n.figures()) }

// restore also makes GemPBA's 0 for a cgroup's memory absent: it means not known, or no limit.
func (n *NodeFrame) restore() {
	clearUnread(n.figures(), n.Unread)
	n.Unread = nil
	for _, v := range []*rt.Opt[uint64]{&n.CgroupMemUsedBytes, &n.CgroupMemLimitBytes} {
		if v.Or(0) == 0 {
			v.Clear()
		}
	}
}

func (s *SocketFrame) number()   { s.Unread = zeroUnread(s.figures()) }
func (s *SocketFrame) restore()  { clearUnread(s.figures(), s.Unread); s.Unread = nil }
func (n *TopologyNode) number()  { n.Unread = zeroUnread(n.figures()) }
func (n *TopologyNode) restore() { clearUnread(n.figures(), n.Unread); n.Unread = nil }
func (s *Socket) number()        { s.Unread = zeroUnread(s.figures()) }
func (s *Socket) restore()       { clearUnread(s.figures(), s.Unread); s.Unread = nil }

// number and restore also convert the CPUs: no CPUs are an empty list.
func (i *Identity) number() {
	i.Unread = zeroUnread(i.figures())
	if i.AllowedCPUs == nil {
		i.AllowedCPUs, i.Unread = []uint32{}, append(i.Unread, "allowed_cpu_ids")
	}
}

func (i *Identity) restore() {
	clearUnread(i.figures(), i.Unread)
	if slices.Contains(i.Unread, "allowed_cpu_ids") {
		i.AllowedCPUs = nil
	}
	i.Unread = nil
}

func (w *WorkerFrame) figures() []figure {
	return []figure{
		{"seq_no", &w.SeqNo},
		{"worker_local_ms", &w.WorkerLocalMS},
		{"tasks_local_total", &w.TasksLocalTotal},
		{"tasks_sent_total", &w.TasksSentTotal},
		{"tasks_recv_total", &w.TasksRecvTotal},
		{"tasks_running", &w.TasksRunning},
		{"scheduler_pending_count", &w.PendingCount},
		{"idle_microseconds_per_worker", &w.IdleMicros},
		{"process_cpu_pct", &w.ProcessCPUPct},
		{"process_rss_bytes", &w.ProcessRSSBytes},
		{"process_threads", &w.ProcessThreads},
	}
}

func (n *NodeFrame) figures() []figure {
	return []figure{
		{"sentinel_local_ms", &n.SentinelLocalMS},
		{"socket_count", &n.SocketCount},
		{"logical_cores", &n.LogicalCores},
		{"mem_total_bytes", &n.MemTotalBytes},
		{"mem_avail_bytes", &n.MemAvailBytes},
		{"cgroup_mem_used_bytes", &n.CgroupMemUsedBytes},
		{"cgroup_mem_limit_bytes", &n.CgroupMemLimitBytes},
		{"net_aggregate.bytes_in", &n.Net.BytesIn},
		{"net_aggregate.bytes_out", &n.Net.BytesOut},
		{"net_aggregate.packets_in", &n.Net.PacketsIn},
		{"net_aggregate.packets_out", &n.Net.PacketsOut},
		{"disk_aggregate.read_bytes", &n.Disk.ReadBytes},
		{"disk_aggregate.write_bytes", &n.Disk.WriteBytes},
	}
}

func (s *SocketFrame) figures() []figure {
	return []figure{{"cpu_pct", &s.CPUPct}, {"mem_total_bytes", &s.MemTotalBytes}, {"mem_used_bytes", &s.MemUsedBytes}}
}

func (n *TopologyNode) figures() []figure {
	return []figure{
		{"total_physical_cores", &n.TotalPhysicalCores},
		{"total_logical_cores", &n.TotalLogicalCores},
		{"mem_total_bytes", &n.MemTotalBytes},
	}
}

func (s *Socket) figures() []figure {
	return []figure{{"physical_cores", &s.PhysicalCores}, {"logical_cores", &s.LogicalCores}}
}

func (i *Identity) figures() []figure {
	return []figure{{"pid", &i.PID}, {"primary_socket", &i.PrimarySocket}}
}
