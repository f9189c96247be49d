package html

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// A sensor that failed is shown with its reason. Those that the node does not have are folded, and have
// no reason.
func TestNotMeasured(t *testing.T) {
	var runs []PageRun
	for _, node := range []string{"n1", "n2"} {
		run := simulated{node: node, readings: 3, every: time.Second}.asRun(t)
		run.Summary.Sensors = map[string]report.SensorIs{
			"lustre": {Status: "absent", Detail: "no /sys/kernel/debug/lustre"}, "fabric": {Status: "absent", Detail: "no /sys/class/infiniband"},
		}
		runs = append(runs, run)
	}
	runs[1].Summary.Sensors["energy"] = report.SensorIs{Status: "denied", Detail: "open energy_uj: permission denied"}
	page := string(pageOf(t, runs...))
	for _, want := range []string{
		"<h2>Not ok</h2>", "<tr><td>n2</td><td>sensor energy</td><td>denied</td><td>open energy_uj: permission denied</td></tr>",
		"<details><summary><h2>Not measured</h2></summary>", "<tr><td>n1, n2</td><td>fabric, lustre</td><td>the node has no such sensor</td></tr>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "/sys/") {
		t.Error("the page has the kernel's path of a sensor that the node does not have")
	}
	if page := string(pageOf(t, runs[0])); strings.Contains(page, "<h2>Not ok</h2>") {
		t.Error("a healthy node has a list of what is not ok")
	}
}

// A plot that shows nothing has a reason instead.
func TestEmpty(t *testing.T) {
	of := func(change func(*report.Summary), lines []packedLine) map[string]string {
		s := simulated{node: "n1", readings: 3, every: time.Second}.asRun(t).Summary
		change(s)
		return emptyOf(s, lines, levelsOf(s))
	}
	basic := []packedLine{{Figure: cpuFigure}, {Figure: memoryFigure, Max: 1}}
	zero := append(slices.Clip(basic), packedLine{Figure: ioFigure}, packedLine{Figure: powerFigure})
	for _, c := range []struct {
		name, figure, want string
		change             func(*report.Summary)
		lines              []packedLine
	}{
		{"all is well", ioFigure, "", func(*report.Summary) {}, append(slices.Clip(basic), packedLine{Figure: ioFigure, Max: 1})},
		{"not measured", ioFigure, "Not measured: the io controller is off", func(s *report.Summary) { s.IO.Reason = "the io controller is off" }, basic},
		{"no I/O", ioFigure, "No I/O: nothing was read from a disk or written to one", func(s *report.Summary) { s.IO = report.IO{ReadBytes: rt.Some[uint64](0)} }, zero},
		{"early I/O", ioFigure, "No I/O after the first reading; in all: read 4.00 KiB, written -", func(s *report.Summary) { s.IO = report.IO{ReadBytes: rt.Some[uint64](4096)} }, zero},
		{"no power", powerFigure, "0 at all readings", func(*report.Summary) {}, zero},
		{"an idle CPU has its allocation", cpuFigure, "", func(*report.Summary) {}, zero},
		{"a short job", cpuFigure, "Not measured: a plot needs 2 readings, and 1 was taken", func(s *report.Summary) { s.Record.Readings = 1 }, nil},
		{"no memory", memoryFigure, "Not measured: it could not be read while the job ran", func(*report.Summary) {}, nil},
		{"no GPU", gpuBusyFigure, "", func(*report.Summary) {}, basic},
		{"unread GPUs", gpuBusyFigure, "GPUs with the index 0,1 are allocated; nothing was read of them", func(s *report.Summary) { s.Run.GPUs = "0,1" }, basic},
	} {
		if got := of(c.change, c.lines)[c.figure]; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// The kernel's peak is a level of its own. A peak of the readings is in their line.
func TestPeak(t *testing.T) {
	s := simulated{node: "n1", readings: 3, every: time.Second}.asRun(t).Summary
	isPeak := func(l level) bool { return l.IsPeak }
	at := slices.IndexFunc(levelsOf(s), isPeak)
	if at < 0 || levelsOf(s)[at].Value != float64(s.Memory.PeakBytes.Or(0)) || s.Memory.PeakBytes.Or(0) == 0 {
		t.Errorf("the levels are %+v: want the peak of %d bytes", levelsOf(s), s.Memory.PeakBytes.Or(0))
	}
	if s.Memory.PeakOf = "readings"; slices.ContainsFunc(levelsOf(s), isPeak) {
		t.Error("the highest reading is shown as the kernel's peak")
	}
}

// A command has the bars of its node, and says so. A recording of a node has none.
func TestBarsOfANode(t *testing.T) {
	s := simulated{node: "n1", readings: 3, every: time.Second}.asRun(t).Summary
	s.Scope, s.CPU.CoresOf, s.Memory.LimitOf = report.ScopeTree, "node", "node"
	for _, b := range barsOf(report.Jobs([]*report.Summary{s}), &report.Colors{}) {
		if isTime := b.Name == "Time"; !isTime && !strings.HasSuffix(b.Value, " (node)") {
			t.Errorf("the bar %s is %q", b.Name, b.Value)
		}
	}
	if s.Scope = report.ScopeNode; len(barsOf(report.Jobs([]*report.Summary{s}), &report.Colors{})) != 0 {
		t.Error("the recording of a node has bars")
	}
}
