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
	for i := range events {
		e := &events[i]
		switch {
		case e.Kind == "gap":
			r.Gaps++
			r.Missed += missed(e.Detail)
		case e.Kind == "tracker" && e.Name == "cost":
			r.Tracker = costOf(e.Detail)
			r.LeftOut = numberIn(e.Detail, "left_out=%d")
		case e.Kind == "job" && e.Name == "rusage":
			if kib := numberIn(e.Detail, "max_process_rss_kib=%d"); kib > 0 {
				s.Memory.LargestProcessBytes.Set(uint64(kib) << 10)
			}
		case e.Kind == "job" && e.Name == "cpuset":
			s.CPU.AllowedCPUs, s.CPU.AllowedMems = allowedOf(e.Detail)
		case e.Kind == "job" && e.Name == "sacct":
			s.Sacct = sacctOf(e.Detail)
		case e.Kind == "tracker" && e.Name == "sensors":
			r.Sensors = sensorsOf(e.Detail)
		case e.Kind == "tracker" && e.Name == "budget":
			r.Budget = append(r.Budget, e.Detail)
		case e.Kind == "job" && e.Name == "tasks" && e.Status == "unseen":
			r.Unseen, r.Complete = numberIn(e.Detail, "%d other"), false
		case e.Kind == "tracker" && e.Name == "clock", e.Kind == "job" && e.Status != "ok" && e.Detail != "":
			r.Remarks = append(r.Remarks, e.Detail)
		case e.Kind == "sensor" && e.Status == "ok":
			delete(s.Sensors, e.Name)
		case e.Kind == "sensor":
			s.Sensors[e.Name] = SensorIs{Status: e.Status, Detail: e.Detail}
		}
	}
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
	var c Cost
	for field := range strings.FieldsSeq(detail) {
		name, value, _ := strings.Cut(field, "=")
		var x float64
		if _, err := fmt.Sscan(value, &x); err != nil {
			continue
		}
		switch name {
		case "cpu_user_secs", "cpu_system_secs":
			c.CPUSecs.Set(c.CPUSecs.Or(0) + x)
		case "max_rss_kib":
			c.MaxRSSBytes.Set(uint64(x) << 10)
		}
	}
	return c
}
