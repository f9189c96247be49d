package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/procfile"
)

// Tracked describes the job or process tree whose GPU use a source records.
type Tracked struct {
	// PIDs appends the processes of the job or the tree to dst. It is called only if a
	// reading finds processes on a GPU.
	PIDs func(dst []int) []int
	// Devices are the GPUs that are allocated to the job, as Slurm lists them
	// (SLURM_JOB_GPUS): the minor numbers of their device files, or UUIDs. Empty if the
	// scheduler gives no list.
	Devices string
	// ByDevice makes Snapshot.GPU the sum over these devices, including the use by other
	// processes. Otherwise, or without Devices, it is the sum over the processes. If the devices
	// cannot be found, it is absent, except for the memory of the processes if a GPU is divided.
	ByDevice bool
	// Event receives an event if another process uses one of the job's GPUs, or the job uses
	// another GPU. The event has no time. Event may be nil.
	Event func(rt.Event)
}

// WithTracked makes each reading fill Snapshot.GPUProcesses, Snapshot.GPU, and InJob of the
// devices.
func WithTracked(t Tracked) Option {
	return func(s *Source) {
		s.processes, s.tracked = true, &tracker{Tracked: t, proc: "/proc"}
		s.tracked.allocated, s.tracked.invalid = parseAllocation(t.Devices)
	}
}

// tracker attributes the values of the drivers to the job or the tree.
type tracker struct {
	Tracked
	allocated allocation
	invalid   error // of parsing Devices

	proc     string // /proc
	pids     []int  // sorted
	ours     []use  // of the newest reading: the snapshot's
	foreign  []use  // of the newest reading: other processes on the job's GPUs
	before   []use  // of the previous reading
	reported []finding

	listed []string // UUIDs of the devices with which the allocation was last compared
	misfit error    // the result
}

// finding is a contradiction, which is reported once.
type finding struct {
	uuid    string
	foreign bool // another process on a GPU of the job; else a process of the job on another GPU
}

// use is a process on a device.
type use struct {
	pid  uint64
	uuid string
}

// attribute fills the values of the job or the tree from r, the newest reading.
func (t *tracker) attribute(r *reading, snap *rt.Snapshot) {
	known := t.mark(r)
	t.pids = t.pids[:0]
	if len(r.processes) > 0 {
		t.pids = t.PIDs(t.pids)
		slices.Sort(t.pids)
	}
	snap.GPUProcesses = snap.GPUProcesses[:0]
	t.before, t.foreign = t.foreign, t.before[:0]
	for i := range r.processes {
		p := &r.processes[i]
		if _, isOurs := slices.BinarySearch(t.pids, int(p.PID)); isOurs {
			snap.GPUProcesses = append(snap.GPUProcesses, *p)
		}
	}
	t.addEnded(r, snap)
	if known {
		t.check(r)
	}
	isAllocated := t.ByDevice && t.Devices != ""
	switch {
	case !isAllocated:
		snap.GPU = r.sumProcesses(snap.GPUProcesses)
	case known:
		snap.GPU = r.sumDevices(func(g *rt.GPUReading) bool { return g.InJob.Or(false) })
	case errors.Is(t.misfit, errDivided):
		snap.GPU = rt.GPUUse{VRAMUsed: r.sumProcesses(snap.GPUProcesses).VRAMUsed}
	default:
		snap.GPU = rt.GPUUse{}
	}
}

// addEnded adds the processes of the previous snapshot that have ended since then, with their last
// figures.
func (t *tracker) addEnded(r *reading, snap *rt.Snapshot) {
	for i := range r.ended {
		p := &r.ended[i]
		if slices.Contains(t.ours, use{p.PID, p.UUID}) {
			snap.GPUProcesses = append(snap.GPUProcesses, *p)
		}
	}
	t.ours = t.ours[:0]
	for i := range snap.GPUProcesses {
		p := &snap.GPUProcesses[i]
		t.ours = append(t.ours, use{p.PID, p.UUID})
	}
}

// mark sets InJob of each device, and reports whether the allocation is known.
func (t *tracker) mark(r *reading) bool {
	if t.Devices == "" {
		return false
	}
	if r.late && len(r.devices) == 0 {
		return false // the driver has not listed the devices yet
	}
	err := t.fit(r.devices)
	for i := range r.devices {
		g := &r.devices[i]
		g.InJob.Clear()
		if err == nil {
			g.InJob = t.allocated.holds(g, r.devices)
		}
	}
	return err == nil
}

// fit is allocation.fits, and records the error when the devices have changed.
func (t *tracker) fit(devices []rt.GPUReading) error {
	isListed := func(uuid string, g rt.GPUReading) bool { return g.UUID == uuid }
	if t.listed != nil && slices.EqualFunc(t.listed, devices, isListed) {
		return t.misfit
	}
	t.listed = make([]string, len(devices))
	for i := range devices {
		t.listed[i] = devices[i].UUID
	}
	t.misfit = t.invalid
	if t.misfit == nil {
		t.misfit = t.allocated.fits(devices)
	}
	if t.misfit != nil {
		t.record("absent", fmt.Sprintf("the GPUs of the job are unknown: %v; the memory of its processes is recorded", t.misfit))
	}
	return t.misfit
}

// check compares the allocation with the processes that the drivers list. A foreign process
// on a GPU of the job is reported only if two readings show it: it may join the job between
// two listings.
func (t *tracker) check(r *reading) {
	for i := range r.processes {
		p := &r.processes[i]
		g := r.device(p.UUID)
		if g == nil {
			continue
		}
		inJob, ok := g.InJob.Get()
		_, isOurs := slices.BinarySearch(t.pids, int(p.PID))
		switch {
		case !ok || inJob == isOurs:
		case isOurs:
			t.report(finding{uuid: p.UUID}, g)
		default:
			u := use{p.PID, p.UUID}
			t.foreign = append(t.foreign, u)
			if slices.Contains(t.before, u) && !t.isServer(p.PID) {
				t.report(finding{p.UUID, true}, g)
			}
		}
	}
}

// isServer reports whether a process is the server of CUDA's Multi-Process Service, which works for its
// clients. The name only prevents a message.
func (t *tracker) isServer(pid uint64) bool {
	return procfile.Text(t.proc, strconv.FormatUint(pid, 10), "comm") == "nvidia-cuda-mps"
}

// device returns the device with this UUID, nil if there is none.
func (r *reading) device(uuid string) *rt.GPUReading {
	if i := slices.IndexFunc(r.devices, func(g rt.GPUReading) bool { return g.UUID == uuid }); i >= 0 {
		return &r.devices[i]
	}
	return nil
}

// report records a contradiction, once.
func (t *tracker) report(f finding, g *rt.GPUReading) {
	if slices.Contains(t.reported, f) {
		return
	}
	t.reported = append(t.reported, f)
	text := "a process of the job uses %s (PCI %s), which is not among the job's GPUs (%s)"
	if f.foreign {
		text = "a process that is not of the job uses %s (PCI %s), which is among the job's GPUs (%s)"
	}
	t.record("mismatch", fmt.Sprintf(text, f.uuid, g.Detail["pci_bus_id"], t.Devices))
}

func (t *tracker) record(status, detail string) {
	if t.Event == nil {
		return
	}
	t.Event(rt.Event{Kind: "job", Name: "gpu", Status: status, Detail: detail})
}

// allocation is a list of devices as a scheduler writes it.
type allocation struct {
	minors []uint64 // of /dev/nvidia<minor>
	uuids  []string // as NVML writes them
}

// parseAllocation parses "0,2-3" or "GPU-...,MIG-...".
func parseAllocation(text string) (a allocation, err error) {
	if text == "" {
		return a, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if strings.HasPrefix(word, "GPU-") || strings.HasPrefix(word, "MIG-") {
			a.uuids = append(a.uuids, word)
			continue
		}
		first, last, ok := procfile.Range(word, 12)
		if !ok {
			return allocation{}, fmt.Errorf("%q in the list %q is neither a number nor a UUID", word, text)
		}
		for n := first; n <= last; n++ {
			a.minors = append(a.minors, n)
		}
	}
	return a, nil
}

var errDivided = errors.New("a GPU is divided (MIG), and the list has numbers")

// fits returns an error if the allocation names devices that do not exist. A number is the minor
// number of a device file, which only NVIDIA GPUs have. If a GPU is divided (MIG), Slurm also
// numbers the instances, in an order of its own.
func (a *allocation) fits(devices []rt.GPUReading) error {
	var found int
	for i := range devices {
		g := &devices[i]
		if slices.Contains(a.uuids, g.UUID) {
			found++
			continue
		}
		if len(a.minors) == 0 {
			continue
		}
		if isInstance := g.Detail["parent_uuid"] != ""; isInstance {
			return errDivided
		}
		minor, ok := minorOf(g)
		if !ok {
			return fmt.Errorf("%s has no device file with a number", g.UUID)
		}
		if slices.Contains(a.minors, minor) {
			found++
		}
	}
	if all := len(a.minors) + len(a.uuids); found < all {
		return fmt.Errorf("%d of the %d GPUs of the list were not found", all-found, all)
	}
	return nil
}

// holds reports whether g is allocated. The result is absent if only an instance of g is.
func (a *allocation) holds(g *rt.GPUReading, devices []rt.GPUReading) rt.Opt[bool] {
	if slices.Contains(a.uuids, g.UUID) || slices.Contains(a.uuids, g.Detail["parent_uuid"]) {
		return rt.Some(true)
	}
	if minor, ok := minorOf(g); ok && slices.Contains(a.minors, minor) {
		return rt.Some(true)
	}
	for i := range devices {
		if devices[i].Detail["parent_uuid"] == g.UUID && slices.Contains(a.uuids, devices[i].UUID) {
			return rt.None[bool]()
		}
	}
	return rt.Some(false)
}

// minorOf is the number of the device file.
func minorOf(g *rt.GPUReading) (uint64, bool) {
	n, err := strconv.ParseUint(g.Detail["minor_number"], 10, 12)
	return n, err == nil
}

// sumProcesses adds up the GPU use of these processes. The sum is absent if a driver did not
// list its processes, and without a GPU. The usage is absent if the usage of one process is, as on a MIG instance.
func (r *reading) sumProcesses(processes []rt.GPUProcessReading) (sum rt.GPUUse) {
	if r.processesShort || len(r.devices) == 0 {
		return sum
	}
	var percent float64
	var vram, utilized uint64
	usageRead, vramRead := true, true
	for i := range processes {
		p := &processes[i]
		v, ok := p.Utilization.Get()
		usageRead = usageRead && ok
		percent += v
		isCounted := slices.ContainsFunc(processes[:i], func(o rt.GPUProcessReading) bool { return o.UUID == p.UUID && o.Utilization.Or(0) > 0 })
		if v > 0 && !isCounted {
			utilized++
		}
		bytes, ok := p.VRAMUsed.Get()
		vramRead = vramRead && ok
		vram += bytes
	}
	if usageRead {
		sum.Usage.Set(percent / 100)
		sum.Utilized.Set(utilized)
	}
	if vramRead {
		sum.VRAMUsed.Set(vram)
	}
	return sum
}
