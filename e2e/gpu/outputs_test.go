//go:build gpu

package gpu

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	rtgpu "github.com/resource-tracker/rt/collect/gpu"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/spool"
)

// outputs are the outputs of one job.
type outputs struct {
	last    *rt.Snapshot // as the spool has it
	summary *report.Summary
	figures report.Balance
	line    *runs.Line
	row     []string // of the CSV: usage, memory, utilized
}

// track records the load as a job with these GPUs in a spool, and reads all outputs of it.
func track(c *check, pid int, devices string) (out outputs) {
	c.Helper()
	dir := c.TempDir()
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some[uint64](7), Node: "n1", Start: time.Now()},
		Allocation: rt.Allocation{User: "user", GPUs: devices},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		c.Fatalf("%v", err)
	}
	src := open(c, rtgpu.WithTracked(rtgpu.Tracked{PIDs: func(dst []int) []int { return append(dst, pid) }, Devices: devices, ByDevice: true, Event: w.Event}))
	begun := time.Now()
	for i := range 4 {
		s := read(c, src)
		s.Seq, s.Wall, s.Boot = int64(i+1), time.Now().UnixNano(), 1e9+time.Since(begun).Nanoseconds()
		s.Job = rt.JobReading{Phase: rt.JobPresent}
		if err := w.Put(s); err != nil {
			c.Fatalf("%v", err)
		}
		time.Sleep(250 * time.Millisecond)
	}
	run.State, run.End = rt.StateEnded, time.Now()
	if err := w.End(run); err != nil {
		c.Fatalf("%v", err)
	}
	r, err := spool.Open(w.Path())
	if err != nil {
		c.Fatalf("%v", err)
	}
	defer r.Close()
	for s, err := range r.Snapshots(c.Context(), 1, 4) {
		if err != nil {
			c.Fatalf("%v", err)
		}
		out.last = &rt.Snapshot{}
		out.last.CopyFrom(s)
	}
	events, err := r.Events()
	if err != nil {
		c.Fatalf("%v", err)
	}
	if out.summary, err = report.Summarize(r.Run(), events, r.Snapshots(c.Context(), 1, 4)); err != nil {
		c.Fatalf("%v", err)
	}
	text, err := json.Marshal(out.summary)
	if err != nil {
		c.Fatalf("%v", err)
	}
	delivered := site.SummaryOf(text)
	out.figures = site.FiguresOf(&delivered)
	scalars := rt.DeriveScalars(nil, out.last, rt.ScopeJob)
	row := strings.Split(strings.TrimSpace(string(resourcetracker.AppendCSV(nil, 1, &scalars))), ",")
	out.row = row[len(row)-3:]
	list, err := runs.Read(c.Context(), []string{dir}, runs.Options{})
	if err != nil {
		c.Fatalf("%v", err)
	}
	lines := list.Lines(runs.Filter{}, true, report.DefaultPrices)
	if len(lines) != 1 {
		c.Fatalf("%d lines in the list of jobs", len(lines))
	}
	out.line = &lines[0]
	return out
}

// TestOutputs compares report, list of jobs, CSV and the figures of a site. The jobs have no GPU, the GPU of the
// load, or one that does not exist.
func TestOutputs(t *testing.T) {
	c := begin(t, "outputs of a job")
	pid := load(c)
	plain := read(c, open(c, rtgpu.WithProcesses()))
	isDivided := slices.ContainsFunc(plain.GPUs, func(g rt.GPUReading) bool { return g.Detail["mig_mode"] == "enabled" })
	minor := plain.GPUs[0].Detail["minor_number"]

	free := track(c, pid, "")
	if len(free.last.GPUProcesses) == 0 {
		c.Skipf("NVML does not list process %d: this is a container with its own process ids", pid)
	}
	c.usedByProcesses(&free, rt.Some[uint64](1))
	if isDivided && free.last.Node.GPUUsage.Valid() {
		c.Errorf("GPUs of which one is divided have the usage %v", free.last.Node.GPUUsage)
	}
	if own := track(c, pid, minor); isDivided {
		c.usedByProcesses(&own, rt.Some[uint64](1))
	} else {
		c.allocated(&own)
	}
	if !isDivided {
		c.notFound(track(c, pid, minor+",4000"))
	}
	g := &free.summary.GPUs[0]
	p := &free.last.GPUProcesses[0]
	c.passed("busy %s, memory %s, the driver accounts for processes: %t", g.BusyText(), g.VRAMText(), p.VRAMPeak.Valid())
}

// usedByProcesses checks a job whose GPUs are not known: all outputs have what its processes used.
func (c *check) usedByProcesses(out *outputs, count rt.Opt[uint64]) {
	c.Helper()
	if len(out.summary.GPUs) != 1 {
		c.Fatalf("the report has %d GPUs: %+v", len(out.summary.GPUs), out.summary.GPUs)
	}
	g := &out.summary.GPUs[0]
	used := out.last.GPU.VRAMUsed
	if g.InJob.Or(false) || g.ProcessVRAMPeakBytes.Or(0) < max(used.Or(0), loadMiB<<20) || !used.Valid() {
		c.Errorf("the report has %+v, the spool %+v", g, out.last.GPU)
	}
	if g.ProcessVRAMPeakMark != report.AtLeast && !out.last.GPUProcesses[0].VRAMPeak.Valid() {
		c.Errorf("a peak of readings is exact: %+v", g)
	}
	if want := mib(used); out.row[1] != want {
		c.Errorf("memory is %q in the CSV, want %q", out.row[1], want)
	}
	if out.line.GPUs != count || out.line.GPUPct != g.ProcessBusyPct {
		c.Errorf("the list has %v GPUs, %v %%, want %v, %v", out.line.GPUs, out.line.GPUPct, count, g.ProcessBusyPct)
	}
	hasUsage := out.last.GPU.Usage.Valid()
	if hasUsage != (out.row[0] != "") || hasUsage != (out.row[2] != "NaN") || g.IsMIG && hasUsage {
		c.Errorf("usage %v, CSV %q, MIG %t", out.last.GPU.Usage, out.row, g.IsMIG)
	}
	if out.figures.GPUSecs.Valid() {
		c.Errorf("the site has %v GPU-seconds", out.figures.GPUSecs)
	}
}

// allocated checks a job that has GPU 0.
func (c *check) allocated(out *outputs) {
	c.Helper()
	g := &out.summary.GPUs[0]
	if len(out.summary.GPUs) != 1 || !g.InJob.Or(false) || g.VRAMPeakMark != report.AtLeast || g.VRAMPeakBytes.Or(0) < loadMiB<<20 {
		c.Errorf("the report has %+v", out.summary.GPUs)
	}
	usage, isRead := out.last.GPU.Usage.Get()
	if want := fmt.Sprintf("%.4f", usage); !isRead || out.row[0] != want || out.row[1] != mib(out.last.GPU.VRAMUsed) {
		c.Errorf("CSV %q, spool %+v", out.row, out.last.GPU)
	}
	if out.line.GPUs != rt.Some[uint64](1) || out.line.GPUPct != g.BusyPct || !out.figures.GPUSecs.Valid() {
		c.Errorf("list %+v, site %+v", out.line, out.figures)
	}
}

// notFound checks a job with a GPU that does not exist: nothing is 0.
func (c *check) notFound(out outputs) {
	c.Helper()
	if out.last.GPU.Valid() || out.row[0] != "" || out.row[1] != "" || out.row[2] != "NaN" {
		c.Errorf("the spool has %+v, the CSV %q", out.last.GPU, out.row)
	}
	if out.line.GPUs.Valid() || out.line.GPUPct.Valid() || out.figures.GPUSecs.Valid() {
		c.Errorf("list %+v, site %+v", out.line, out.figures)
	}
}

func mib(bytes rt.Opt[uint64]) string {
	if n, ok := bytes.Get(); ok {
		return strconv.FormatFloat(float64(n)/(1<<20), 'f', 4, 64)
	}
	return ""
}

// TestMemoryOfNVML reports what the driver's library costs a tracker.
func TestMemoryOfNVML(t *testing.T) {
	c := begin(t, "memory of NVML")
	before := resident(c)
	src := open(c)
	for range 3 {
		read(c, src)
	}
	c.passed("%d MiB before, %d MiB with NVML", before>>10, resident(c)>>10)
}

// resident is the resident set of this process in KiB, VmRSS of /proc/self/status.
func resident(c *check) uint64 {
	c.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		c.Fatalf("%v", err)
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	word, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kib, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		c.Fatalf("VmRSS: %v", err)
	}
	return kib
}
