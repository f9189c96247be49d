package report

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
)

// Cost is what the tracker itself used, according to its last event.
type Cost struct {
	CPUSecs     rt.Opt[float64] `json:"cpu_secs"`
	MaxRSSBytes rt.Opt[uint64]  `json:"max_rss_bytes"`
}

func (s *Summary) ledger(events []rt.Event) {
	r := &s.Record
	counted := 0 // missed readings, by the tracker: the ledger leaves out repeated gaps
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == "gap":
			r.Gaps++
			r.Missed += missed(e.Detail)
		case e.Kind == "spool" && e.Name == "gap/schedule" && e.Status == "repeated":
			r.Gaps += numberIn(e.Detail, "%d further")
		case e.Kind == "tracker" && e.Name == "cost":
			counted = numberIn(e.Detail, "missed=%d")
			r.Tracker = costOf(e.Detail)
			r.LeftOut = numberIn(e.Detail, "left_out=%d")
		case e.Kind == "job" && e.Name == "rusage":
			if kib := numberIn(e.Detail, "max_process_rss_kib=%d"); kib > 0 {
				s.Memory.LargestProcessBytes.Set(uint64(kib) << 10)
			}
		case e.Kind == "job" && e.Name == "cpuset":
			s.CPU.AllowedCPUs, s.CPU.AllowedMems = allowedOf(e.Detail)
		case e.Kind == "job" && e.Name == "sacct" && e.Status == "ok":
			s.Sacct = sacctOf(e.Detail)
		case e.Kind == "tracker" && e.Name == "sensors":
			r.Sensors = sensorsOf(e.Detail)
		case e.Kind == "tracker" && e.Name == "budget":
			r.Budget = append(r.Budget, e.Detail)
		case e.Kind == "job" && e.Name == "tasks" && e.Status == "unseen":
			r.Unseen, r.Complete = numberIn(e.Detail, "%d other"), false
			s.MarkAtLeast()
		case e.Kind == "job" && e.Name == "tree":
			if s.Scope == ScopeTree {
				s.MarkAtLeast()
			}
			r.Remarks = append(r.Remarks, e.Detail)
		case e.Kind == "job" && e.Name == "end":
			s.MarkAtLeast()
			r.Remarks = append(r.Remarks, e.Detail)
		case e.Kind == "job" && e.Name == "oom_kill": // OOM has it
		case e.Kind == "tracker" && e.Name == "clock", e.Kind == "job" && e.Status != "ok" && e.Detail != "":
			r.Remarks = append(r.Remarks, e.Detail)
		case e.Kind == "sensor" && e.Status == "ok":
			delete(s.Sensors, e.Name)
		case e.Kind == "sensor":
			s.Sensors[e.Name] = SensorIs{Status: e.Status, Detail: e.Detail}
		}
	}
	r.Missed = max(r.Missed, counted)
	r.Expected = r.Readings + r.Missed + r.LeftOut
}

// allowedOf reads "cpus=0-3,8 mems=0".
func allowedOf(detail string) (cpus, mems string) {
	cpus, mems, _ = strings.Cut(strings.TrimPrefix(detail, "cpus="), " mems=")
	return cpus, mems
}

// sensorsOf parses "cgroup ok, disk denied": each sensor and its status at the end.
func sensorsOf(detail string) map[string]string {
	all := map[string]string{}
	for one := range strings.SplitSeq(detail, ", ") {
		if at := strings.LastIndexByte(one, ' '); at > 0 {
			all[one[:at]] = one[at+1:]
		}
	}
	return all
}

// missed returns the number of readings in the detail of a gap, "5 readings before ...".
func missed(detail string) int { return numberIn(detail, "%d readings") }

// numberIn returns the number in the place of %d, 0 if the text is different.
func numberIn(detail, format string) (n int) {
	before, _, _ := strings.Cut(format, "%d")
	if _, after, found := strings.Cut(detail, before); found {
		if _, err := fmt.Sscanf(before+after, format, &n); err != nil {
			return 0
		}
	}
	return max(n, 0)
}

// costOf parses the pairs of the recorder's event.
func costOf(detail string) Cost {
	figures := pairsOf(detail)
	c := Cost{MaxRSSBytes: rt.Map(number(figures["max_rss_kib"]), func(kib float64) uint64 { return uint64(kib) << 10 })}
	for _, name := range []string{"cpu_user_secs", "cpu_system_secs"} {
		if secs, ok := number(figures[name]).Get(); ok {
			c.CPUSecs.Set(c.CPUSecs.Or(0) + secs)
		}
	}
	return c
}

// pairsOf parses "name=value name=value".
func pairsOf(detail string) map[string]string {
	pairs := map[string]string{}
	for pair := range strings.FieldsSeq(detail) {
		name, value, _ := strings.Cut(pair, "=")
		pairs[name] = value
	}
	return pairs
}

// number parses a number, absent for another text.
func number(text string) (n rt.Opt[float64]) {
	var x float64
	if _, err := fmt.Sscan(text, &x); err == nil {
		n.Set(x)
	}
	return n
}

// reasons sets the reason of each absent figure: the status of the sensor, or else what
// follows from the way the run was tracked.
func (r *reading) reasons(s *Summary) {
	general := ""
	switch {
	case r.taken.count == 0:
		general = "no reading was taken"
	case s.Scope == ScopeJob && !r.seen.present:
		general = "the job's cgroup never appeared on this node"
	case s.Scope == ScopeTree && !r.seen.tree:
		general = "the process was not found"
	case r.taken.count == 1:
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
		io, parts, oom = "the processes could not be read", "not separated for a process tree", "not counted for a process tree"
	case ScopeNode:
		parts, oom = "not separated for a node", "not counted for a node"
	}
	s.CPU.Reason = why(!s.CPU.UsedSecs.Valid(), cpu, unread)
	s.Memory.Reason = why(!s.Memory.PeakBytes.Valid(), memory, held)
	s.Memory.PartsReason = why(!s.Memory.AnonymousBytes.Valid(), memory, parts)
	if s.Run.Outcome == rt.OutcomeOOM {
		oom = "the kill was after the last reading"
	}
	s.Memory.OOMReason = why(!s.Memory.OOMKills.Valid(), memory, oom)
	s.IO.Reason = why(!s.IO.ReadBytes.Valid() || !s.IO.WriteBytes.Valid(), disk, io)
	s.Processes.Reason = why(!s.Processes.Max.Valid(), processes, unread)
	if r.taken.count > 1 {
		general = "" // the node was read, even if the job was not
	}
	s.Network.Reason = why(!s.Network.RecvBytes.Valid(), "network", unread)
}
