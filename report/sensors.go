package report

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// Sensor is what another program's reports of one kind, which are kept with the run,
// say of one target. In a run of a tracker nothing of it is in the other figures.
type Sensor struct {
	Sensor    string          `json:"sensor"`
	Target    string          `json:"target"` // a cgroup or a job as the sensor calls it; "all": the node
	Kind      string          `json:"kind"`   // "hwpc", "power", "procfs"
	Reports   int             `json:"reports"`
	MeanWatts rt.Opt[float64] `json:"mean_watts"`   // of kind power
	Joules    rt.Opt[float64] `json:"joules"`       // of kind hwpc, where RAPL was counted: packages and memory
	MeanPct   rt.Opt[float64] `json:"mean_cpu_pct"` // of kind procfs, of the node's CPUs
}

// mostSensors are shown on the screen; --json has all.
const mostSensors = 4

// sensors are the lines of what other programs measured.
func (p *page) sensors(s *Summary) {
	for i, of := range s.Others {
		if i == mostSensors {
			p.line("", "and %d more, see --json", len(s.Others)-i)
			return
		}
		label := ""
		if i == 0 {
			label = "Reports of"
		}
		figure := ""
		switch {
		case of.MeanWatts.Valid():
			figure = number(of.MeanWatts, ", mean %.1f W")
		case of.Joules.Valid():
			figure = number(of.Joules, ", %.1f J")
		case of.MeanPct.Valid():
			figure = number(of.MeanPct, ", mean %.1f %% of the CPUs")
		}
		p.line(label, "%s", fmt.Sprintf("%s about %s: %d %s%s", Plain(of.Sensor), Plain(of.Target), of.Reports, Plain(of.Kind), figure))
	}
}
