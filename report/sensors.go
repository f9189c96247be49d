package report

import (
	"fmt"

	"github.com/resource-tracker/rt"
)

// Sensor summarizes the stored reports of another program, of one kind and for one target. In
// a run of a tracker these values are not part of the other figures.
type Sensor struct {
	Sensor    string          `json:"sensor"`
	Target    string          `json:"target"` // name of a cgroup or job in the sensor; "all": the node
	Kind      string          `json:"kind"`   // "hwpc", "power", "procfs"
	Reports   int             `json:"reports"`
	MeanWatts rt.Opt[float64] `json:"mean_watts"`   // of kind power
	Joules    rt.Opt[float64] `json:"joules"`       // of kind hwpc, if RAPL was counted: packages and memory
	MeanPct   rt.Opt[float64] `json:"mean_cpu_pct"` // of kind procfs, of the node's CPUs
}

// mostSensors bounds the sensors on the screen; --json has all.
const mostSensors = 4

// sensors writes the lines of what other programs measured.
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
