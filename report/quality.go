package report

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
)

// Cost is what the tracker itself used, by its own last word.
type Cost struct {
	CPUSecs     rt.Opt[float64] `json:"cpu_secs"`
	MaxRSSBytes rt.Opt[uint64]  `json:"max_rss_bytes"`
}

// ledger takes what the quality ledger says.
func (s *Summary) ledger(events []rt.Event) {
	for _, e := range events {
		switch {
		case e.Kind == "gap":
			s.Record.Gaps++
			s.Record.Missed += missed(e.Detail)
		case e.Kind == "tracker" && e.Name == "cost":
			s.Record.Tracker = costOf(e.Detail)
		case e.Kind == "tracker" && e.Name == "budget":
			s.Record.Budget = append(s.Record.Budget, e.Detail)
		case e.Kind == "sensor" && e.Status == "ok":
			delete(s.Sensors, e.Name)
		case e.Kind == "sensor":
			s.Sensors[e.Name] = SensorIs{Status: e.Status, Detail: e.Detail}
		}
	}
	s.Record.Expected = s.Record.Readings + s.Record.Missed
}

// missed is how many readings a gap tells of, "5 readings before ...".
func missed(detail string) (n int) {
	if _, err := fmt.Sscanf(detail, "%d readings", &n); err != nil {
		return 0
	}
	return n
}

// costOf reads the pairs of the recorder's event.
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
