//go:build gpu

package gpu

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	rtgpu "github.com/resource-tracker/rt/collect/gpu"
)

// TestReadings compares each GPU with what nvidia-smi prints in the same second.
func TestReadings(t *testing.T) {
	c := begin(t, "readings next to nvidia-smi")
	src := open(c)
	rows, err := smi("--query-gpu=uuid,name,memory.total,memory.used,temperature.gpu,power.draw,pci.bus_id,driver_version,mig.mode.current")
	if err != nil {
		c.Fatalf("nvidia-smi: %v", err)
	}
	s := read(c, src)
	byUUID := map[string]*rt.GPUReading{}
	for i := range s.GPUs {
		byUUID[s.GPUs[i].UUID] = &s.GPUs[i]
	}
	for _, f := range rows {
		g := byUUID[f[0]]
		if len(f) != 9 || g == nil {
			c.Errorf("nvidia-smi has %q, the reading %v", f, g)
			continue
		}
		if g.Name != f[1] || g.Detail["pci_bus_id"] != f[6] || g.Detail["driver_version"] != f[7] {
			c.Errorf("%+v, nvidia-smi: %q", g, f)
		}
		if f[8] != "Enabled" {
			c.near(f[0]+" memory.total", float64(g.VRAMTotal.Or(0))/(1<<20), f[2], 1)
			c.near(f[0]+" memory.used", float64(g.VRAMUsed.Or(0))/(1<<20), f[3], 64)
		}
		c.near(f[0]+" temperature", float64(g.Temperature.Or(0)), f[4], 3)
		c.near(f[0]+" power", g.Power.Or(0), f[5], 100)
		t.Logf("%+v\nnvidia-smi: %q", g, f)
	}
	c.passed("%d GPUs, the first is %s with NVML %s", len(rows), s.GPUs[0].Name, s.GPUs[0].Detail["nvml_version"])
}

// near compares with what nvidia-smi prints, unless that is "[N/A]".
func (c *check) near(what string, got float64, text string, tolerance float64) {
	c.Helper()
	want, err := strconv.ParseFloat(text, 64)
	if err == nil && math.Abs(got-want) > tolerance {
		c.Errorf("%s is %v, nvidia-smi: %v", what, got, want)
	}
}

// TestProcess reads the memory of a process that uses a GPU, and its busy time.
func TestProcess(t *testing.T) {
	c := begin(t, "use of a process")
	src := open(c, rtgpu.WithProcesses())
	pid := load(c)
	var of rt.GPUProcessReading
	var busy float64
	for deadline := time.Now().Add(loadTime * time.Second / 2); time.Now().Before(deadline); time.Sleep(500 * time.Millisecond) {
		s := read(c, src)
		for i := range s.GPUs {
			busy = max(busy, s.GPUs[i].Utilization.Or(0))
		}
		all := src.Processes()
		i := slices.IndexFunc(all, func(p rt.GPUProcessReading) bool { return p.PID == uint64(pid) })
		if i >= 0 {
			of = all[i]
			if busy > 0 {
				break
			}
		}
	}
	rows, err := smi("--query-compute-apps=pid,used_memory")
	i := slices.IndexFunc(rows, func(f []string) bool { return f[0] == strconv.Itoa(pid) })
	if of.PID == 0 && i < 0 {
		c.Skipf("neither NVML nor nvidia-smi lists process %d: this is a container with its own process ids (%v)", pid, err)
	}
	if of.PID == 0 || i < 0 {
		c.Fatalf("process %d: NVML has %+v, nvidia-smi %q %v", pid, of, rows, err)
	}
	c.near("memory of the process, in MiB", float64(of.VRAMUsed.Or(0))/(1<<20), rows[i][1], 64)
	if of.VRAMUsed.Or(0) < loadMiB<<20 {
		c.Errorf("the process uses %d MiB, less than it has allocated (%d)", of.VRAMUsed.Or(0)>>20, loadMiB)
	}
	if busy == 0 {
		c.Errorf("no GPU was busy while the load ran")
	}
	c.passed("%d MiB, utilization of the process %v %%, of the GPU %v %%", of.VRAMUsed.Or(0)>>20, of.Utilization, busy)
}

// TestJob attributes GPUs to a job: by its processes, and by the list of Slurm.
func TestJob(t *testing.T) {
	c := begin(t, "the GPUs of a job")
	pid := load(c)
	pids := func(dst []int) []int { return append(dst, pid) }
	plain := read(c, open(c))
	first := &plain.GPUs[0]
	if first.Detail["mig_mode"] == "enabled" {
		c.Skipf("GPU 0 is in MIG mode: Slurm lists instances by UUID")
	}
	for _, byDevice := range []bool{false, true} {
		src := open(c, rtgpu.WithTracked(rtgpu.Tracked{PIDs: pids, Devices: first.Detail["minor_number"], ByDevice: byDevice, Event: func(e rt.Event) { t.Logf("event: %+v", e) }}))
		s := read(c, src)
		used, isRead := s.GPU.VRAMUsed.Get()
		if !isRead && !byDevice {
			c.Skipf("the driver lists no memory of processes here: %+v", s.GPU)
		}
		if used < loadMiB<<20 {
			c.Errorf("by device %t: the job uses %d MiB, less than it has allocated (%d)", byDevice, used>>20, loadMiB)
		}
		for i := range s.GPUs {
			if want := s.GPUs[i].UUID == first.UUID; s.GPUs[i].InJob.Or(false) != want {
				c.Errorf("GPU %s is in the job: %v, want %t", s.GPUs[i].UUID, s.GPUs[i].InJob, want)
			}
		}
		c.passed("%d MiB on %s of %d GPUs", used>>20, first.UUID, len(s.GPUs))
	}
}

// TestReport tracks the load with the programs, and reads the report.
func TestReport(t *testing.T) {
	c := begin(t, "report of a tracked command")
	if devices() != "/dev" {
		c.Skipf("the programs read /dev, and the GPU is simulated in %s", devices())
	}
	spool := t.TempDir()
	cmd := exec.Command(program("resource-tracker"), "--spool", spool, "--", program("load"), "10", strconv.Itoa(loadMiB))
	if out, err := cmd.CombinedOutput(); err != nil {
		c.Fatalf("resource-tracker: %v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(spool, "*.db"))
	if err != nil || len(found) != 1 {
		c.Fatalf("the spool has %q, %v; want one file", found, err)
	}
	out, err := exec.Command(program("rt-spool"), "--config", os.DevNull, "--spool", spool, "report", "--json", found[0]).Output()
	var reports []struct {
		GPUs []struct {
			UUID       string
			VRAMPeak   *uint64  `json:"vram_peak_bytes"`
			MaxBusyPct *float64 `json:"max_busy_pct"`
		}
	}
	if jsonErr := json.Unmarshal(out, &reports); jsonErr != nil || err != nil || len(reports) != 1 {
		c.Fatalf("rt-spool report: %v %v\n%s", err, jsonErr, out)
	}
	isUsed := false
	for _, g := range reports[0].GPUs {
		isUsed = isUsed || (g.VRAMPeak != nil && *g.VRAMPeak >= loadMiB<<20)
	}
	if !isUsed {
		c.Errorf("no GPU of the report has the memory of the load: %s", out)
	}
	c.passed("%d GPUs in the report", len(reports[0].GPUs))
}

// TestMIG compares the instances with nvidia-smi.
func TestMIG(t *testing.T) {
	c := begin(t, "MIG")
	src := open(c)
	s := read(c, src)
	var instances []string
	enabled := 0
	for i := range s.GPUs {
		if s.GPUs[i].Detail["mig_mode"] == "enabled" {
			enabled++
		}
		if s.GPUs[i].Detail["parent_uuid"] != "" {
			instances = append(instances, s.GPUs[i].UUID)
		}
	}
	if enabled == 0 {
		c.Skipf("no GPU is in MIG mode")
	}
	out, err := exec.Command("nvidia-smi", "-L").Output()
	if err != nil {
		c.Fatalf("nvidia-smi -L: %v", err)
	}
	if n := strings.Count(string(out), "UUID: MIG-"); n != len(instances) {
		c.Errorf("%d instances, nvidia-smi: %d\n%s", len(instances), n, out)
	}
	for _, uuid := range instances {
		if !strings.Contains(string(out), uuid) {
			c.Errorf("nvidia-smi has no instance %s:\n%s", uuid, out)
		}
	}
	c.passed("%d instances on %d GPUs", len(instances), enabled)
}

// TestDoctor: the doctor finds the GPUs and NVML.
func TestDoctor(t *testing.T) {
	c := begin(t, "rt-spool doctor")
	if devices() != "/dev" {
		c.Skipf("the programs read /dev, and the GPU is simulated in %s", devices())
	}
	out, _ := exec.Command(program("rt-spool"), "--config", os.DevNull, "doctor", "--role", "node", "--json").Output() // 1 or 2 without Slurm
	var found []struct{ Name, Status, Finding string }
	if err := json.Unmarshal(out, &found); err != nil {
		c.Fatalf("doctor: %v\n%s", err, out)
	}
	for _, name := range []string{"gpu.driver", "gpu.devices", "gpu.nvml"} {
		i := slices.IndexFunc(found, func(f struct{ Name, Status, Finding string }) bool { return f.Name == name })
		if i < 0 || found[i].Status != "ok" {
			c.Errorf("no ok of %s: %+v", name, found)
		} else if name == "gpu.devices" {
			c.passed("%s", found[i].Finding)
		}
	}
}
