package gpu

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// Tracked is whose use of the GPUs a source looks for: a job's, or a process tree's.
type Tracked struct {
	// PIDs appends the processes of the job or the tree to dst. It is called in
	// readings that find processes on a GPU.
	PIDs func(dst []int) []int
	// Devices are the GPUs that are allocated to the job, as Slurm lists them
	// (SLURM_JOB_GPUS): the minor numbers of their device files, or UUIDs. Empty
	// where the scheduler has said nothing.
	Devices string
	// ByDevice: Snapshot.GPU is what these devices did, whoever used them. Without
	// it, or where they are not known, it is what the processes did.
	ByDevice bool
	// Event is told what does not fit together: processes of others on the job's
	// GPUs, processes of the job on others. Nil for nobody.
	Event func(rt.Event)
}

// WithTracked has each reading ask for the processes on the GPUs, and fill in
// Snapshot.GPUProcesses, Snapshot.GPU, and InJob of the devices.
func WithTracked(t Tracked) Option {
	return func(s *Source) {
		s.processes, s.tracked = true, &tracker{Tracked: t}
		s.tracked.allocated, s.tracked.unread = parseAllocation(t.Devices)
	}
}

// tracker attributes what the drivers said to the job or the tree.
type tracker struct {
	Tracked
	allocated allocation
	unread    error // why Devices could not be read

	pids    []int // sorted
	foreign []use // of the newest reading: processes of others on the job's GPUs
	before  []use // of the reading before
	told    []finding

	listed []string // UUIDs of the devices that the allocation was last held against
	misfit error    // what that showed
}

// finding is what is told once.
type finding struct {
	uuid    string
	foreign bool // somebody else's process on a GPU of the job; or the other way round
}

// use is a process on a device.
type use struct {
	pid  uint64
	uuid string
}

// attribute fills in what r, the newest reading, says of the job or the tree.
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
		if _, mine := slices.BinarySearch(t.pids, int(p.PID)); mine {
			snap.GPUProcesses = append(snap.GPUProcesses, *p)
		}
	}
	if known {
		t.check(r)
	}
	if known && t.ByDevice {
		snap.GPU = r.sumDevices(func(g *rt.GPUReading) bool { return g.InJob.Or(false) })
		return
	}
	snap.GPU = r.sumProcesses(snap.GPUProcesses)
}

// mark says of each device whether it is allocated to the job, and whether that is
// known of all.
func (t *tracker) mark(r *reading) bool {
	if t.Devices == "" {
		return false
	}
	if r.late && len(r.devices) == 0 {
		return false // the driver has yet to say what there is
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

// fit says why the list cannot be of these devices, and tells it when they have
// changed.
func (t *tracker) fit(devices []rt.GPUReading) error {
	same := t.listed != nil && len(t.listed) == len(devices)
	for i := 0; same && i < len(devices); i++ {
		same = t.listed[i] == devices[i].UUID
	}
	if same {
		return t.misfit
	}
	t.listed = make([]string, len(devices))
	for i := range devices {
		t.listed[i] = devices[i].UUID
	}
	t.misfit = t.unread
	if t.misfit == nil {
		t.misfit = t.allocated.fits(devices)
	}
	if t.misfit != nil {
		t.tell("absent", fmt.Sprintf("which of the GPUs are the job's is not known: %v; what its processes use is recorded", t.misfit))
	}
	return t.misfit
}

// check compares the allocation with the processes that the drivers see. That a
// process of another is on a GPU of the job is told when two readings say so: it
// may have joined the job between the list of the driver and that of the job.
func (t *tracker) check(r *reading) {
	for i := range r.processes {
		p := &r.processes[i]
		g := r.device(p.UUID)
		if g == nil {
			continue
		}
		inJob, ok := g.InJob.Get()
		_, mine := slices.BinarySearch(t.pids, int(p.PID))
		switch {
		case !ok || inJob == mine:
		case mine:
			t.find(finding{uuid: p.UUID}, g)
		default:
			u := use{p.PID, p.UUID}
			t.foreign = append(t.foreign, u)
			if slices.Contains(t.before, u) {
				t.find(finding{p.UUID, true}, g)
			}
		}
	}
}

// device is the one with this UUID, nil where there is none.
func (r *reading) device(uuid string) *rt.GPUReading {
	for i := range r.devices {
		if r.devices[i].UUID == uuid {
			return &r.devices[i]
		}
	}
	return nil
}

// find tells what does not fit together, once.
func (t *tracker) find(f finding, g *rt.GPUReading) {
	if slices.Contains(t.told, f) {
		return
	}
	t.told = append(t.told, f)
	text := "a process of the job uses %s (PCI %s), which is not among the job's GPUs (%s)"
	if f.foreign {
		text = "a process that is not of the job uses %s (PCI %s), which is among the job's GPUs (%s)"
	}
	t.tell("mismatch", fmt.Sprintf(text, f.uuid, g.Detail["pci_bus_id"], t.Devices))
}

func (t *tracker) tell(status, detail string) {
	if t.Event == nil {
		return
	}
	t.Event(rt.Event{Time: time.Now().UTC(), Kind: "job", Name: "gpu", Status: status, Detail: detail})
}

// allocation is a list of devices as a scheduler writes it.
type allocation struct {
	minors []uint64 // of /dev/nvidia<minor>
	uuids  []string // as NVML writes them
}

// parseAllocation reads "0,2-3" or "GPU-...,MIG-...".
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
		from, to, isRange := strings.Cut(word, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.ParseUint(from, 10, 12)
		last, err2 := strconv.ParseUint(to, 10, 12)
		if err1 != nil || err2 != nil || last < first {
			return allocation{}, fmt.Errorf("%q in the list %q is neither a number nor a UUID", word, text)
		}
		for n := first; n <= last; n++ {
			a.minors = append(a.minors, n)
		}
	}
	return a, nil
}

// fits says why the list cannot be of these devices. A number is that of a device
// file, which NVIDIA's GPUs alone have here; where a GPU is divided Slurm counts
// the instances too, in an order of its own.
func (a *allocation) fits(devices []rt.GPUReading) error {
	var there int
	for i := range devices {
		g := &devices[i]
		if slices.Contains(a.uuids, g.UUID) {
			there++
			continue
		}
		if len(a.minors) == 0 {
			continue
		}
		if strings.HasPrefix(g.UUID, "MIG-") {
			return errors.New("a GPU is divided (MIG), and the list has numbers")
		}
		minor, ok := minorOf(g)
		if !ok {
			return fmt.Errorf("%s has no device file with a number", g.UUID)
		}
		if slices.Contains(a.minors, minor) {
			there++
		}
	}
	if all := len(a.minors) + len(a.uuids); there < all {
		return fmt.Errorf("%d of the %d GPUs of the list were not found", all-there, all)
	}
	return nil
}

// holds says whether g is allocated. A GPU of which an instance is, is so in part:
// that is absent.
func (a *allocation) holds(g *rt.GPUReading, devices []rt.GPUReading) rt.Opt[bool] {
	if slices.Contains(a.uuids, g.UUID) {
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

// minorOf is the number of the device file, as the driver says it.
func minorOf(g *rt.GPUReading) (uint64, bool) {
	n, err := strconv.ParseUint(g.Detail["minor_number"], 10, 12)
	return n, err == nil
}

// sumProcesses is what these processes did on the GPUs. It is absent where a driver
// did not list its processes, and so is the usage where one of them has none:
// on a MIG instance it is not known.
func (r *reading) sumProcesses(processes []rt.GPUProcessReading) (sum rt.GPUUse) {
	if r.processesShort {
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
		if v > 0 && !slices.ContainsFunc(processes[:i], func(o rt.GPUProcessReading) bool { return o.UUID == p.UUID && o.Utilization.Or(0) > 0 }) {
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
