package report

// absences explain why a machine lacks something, and what to do. The ledger has the path of
// /sys that does not exist.
var absences = map[string]string{
	"energy":        "no counters in /sys: virtual machines have none; elsewhere load the module intel_rapl_msr or that of a power meter",
	"cpu frequency": "this kernel reports none",
}

// reasons sets the reason of each absent figure: the status of the sensor, or else what
// follows from the way the run was tracked.
func (r *reading) reasons(s *Summary) {
	general := ""
	switch {
	case r.readings == 0:
		general = "no reading was taken"
	case s.Scope == ScopeJob && !r.seen.present:
		general = "the job's cgroup never appeared on this node"
	case s.Scope == ScopeTree && !r.seen.tree:
		general = "the process was not found"
	case r.readings == 1:
		general = "a single reading was taken"
	}
	why := func(absent bool, sensor, otherwise string) string {
		switch {
		case !absent:
			return ""
		case general != "":
			return general
		}
		if is, ok := s.Sensors[sensor]; ok {
			if is.Detail != "" {
				return is.Detail
			}
			return sensor + " is " + is.Status
		}
		return otherwise
	}
	const unread = "it could not be read"
	cpu, memory, disk, processes := "cpu", "memory", "disk", "processes"
	held, io, parts, oom := unread, unread, unread, unread
	switch s.Scope {
	case ScopeJob:
		cpu, memory, disk, processes = "cgroup", "cgroup", "cgroup", "cgroup"
		io = "the io controller is off in the job's cgroup"
	case ScopeTree:
		cpu, memory, disk, processes = "tree", "tree", "tree", "tree"
		held = "it ended before its memory was read"
		io, parts, oom = "not read for a process tree", "not separated for a process tree", "not counted for a process tree"
	case ScopeNode:
		parts, oom = "not separated for a node", "not counted for a node"
	}
	s.CPU.Reason = why(!s.CPU.UsedSecs.Valid(), cpu, unread)
	s.Memory.Reason = why(!s.Memory.PeakBytes.Valid(), memory, held)
	s.Memory.PartsReason = why(!s.Memory.AnonymousBytes.Valid(), memory, parts)
	s.Memory.OOMReason = why(!s.Memory.OOMKills.Valid(), memory, oom)
	s.IO.Reason = why(!s.IO.ReadBytes.Valid() || !s.IO.WriteBytes.Valid(), disk, io)
	s.Processes.Reason = why(!s.Processes.Max.Valid(), processes, unread)
	if r.readings > 1 {
		general = "" // the node was read, even if the job was not
	}
	s.Network.Reason = why(!s.Network.RecvBytes.Valid(), "network", unread)
}
