package spool

import (
	"context"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/resource-tracker/rt"
)

// optCmp compares optionals by what they say.
var optCmp = cmp.Options{
	cmp.Comparer(func(a, b rt.Opt[uint64]) bool { return a == b }),
	cmp.Comparer(func(a, b rt.Opt[int64]) bool { return a == b }),
	cmp.Comparer(func(a, b rt.Opt[float64]) bool { return a == b }),
	cmp.Comparer(func(a, b rt.Opt[rt.CPUTimes]) bool { return a == b }),
	cmp.Comparer(func(a, b rt.Opt[bool]) bool { return a == b }),
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreUnexported(rt.JobReading{}, rt.TreeReading{}), // what Derive remembers
}

// same asserts that a snapshot came back as it was. Devices can come back in another order.
func same(t *testing.T, want, got *rt.Snapshot) {
	t.Helper()
	want, got = inOrder(want), inOrder(got)
	if reflect.DeepEqual(want, got) {
		return // cmp takes a hundred times longer
	}
	if diff := cmp.Diff(want, got, optCmp); diff != "" {
		t.Fatalf("snapshot %d differs from what was written:\n%s", want.Seq, diff)
	}
}

// inOrder is a copy with the devices sorted.
func inOrder(s *rt.Snapshot) *rt.Snapshot {
	c := new(rt.Snapshot)
	c.CopyFrom(s)
	slices.SortFunc(c.Nets, func(a, b rt.NetReading) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Disks, func(a, b rt.DiskReading) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(c.Mounts, func(a, b rt.MountReading) int { return strings.Compare(a.MountPoint, b.MountPoint) })
	slices.SortFunc(c.GPUs, func(a, b rt.GPUReading) int { return strings.Compare(a.UUID, b.UUID) })
	slices.SortFunc(c.Fabrics, func(a, b rt.FabricReading) int { return strings.Compare(a.Device, b.Device) })
	slices.SortFunc(c.RemoteFS, func(a, b rt.RemoteFSReading) int { return strings.Compare(a.Source, b.Source) })
	slices.SortFunc(c.Steps, func(a, b rt.StepReading) int { return strings.Compare(a.Step, b.Step) })
	slices.SortFunc(c.Procs, func(a, b rt.ProcessReading) int { return strings.Compare(a.Comm, b.Comm) })
	slices.SortFunc(c.GPUProcesses, func(a, b rt.GPUProcessReading) int { return strings.Compare(a.UUID, b.UUID) })
	slices.SortFunc(c.Energy, func(a, b rt.EnergyReading) int { return strings.Compare(a.Domain, b.Domain) })
	slices.SortFunc(c.Perf, func(a, b rt.PerfReading) int { return strings.Compare(a.Event, b.Event) })
	return c
}

// clone is a deep copy with what the spool keeps of CPUs and times.
func clone(s *rt.Snapshot) *rt.Snapshot {
	c := new(rt.Snapshot)
	c.CopyFrom(s)
	c.Wall, c.Boot = floor(c.Wall, 1000), floor(c.Boot, 1000)
	c.Node.ReadBoot = floor(c.Node.ReadBoot, 1000)
	for i := range c.CPUs {
		t := c.CPUs[i].Times
		c.CPUs[i].Times = rt.CPUTimes{User: t.Busy(), Idle: t.Idle + t.IOWait}
	}
	return c
}

func floor(n, unit int64) int64 { return n / unit * unit }

// Count returns the number of snapshots.
func (r *Reader) Count() (int64, error) {
	n, err := r.db.queryInt("SELECT count(*) FROM snapshot")
	return n, describe(r.path, err)
}

// stored writes the snapshots and reads them back.
func stored(t *testing.T, opts Options, list []*rt.Snapshot) *Reader {
	t.Helper()
	w := mustCreate(t, opts)
	for _, s := range list {
		if err := w.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	for _, p := range r.Verify(t.Context()) {
		t.Errorf("verify: %s", p.What)
	}
	return r
}

func collect(t *testing.T, r *Reader, from, to int64) []*rt.Snapshot {
	t.Helper()
	var list []*rt.Snapshot
	for s, err := range r.Snapshots(t.Context(), from, to) {
		if err != nil {
			t.Fatal(err)
		}
		c := new(rt.Snapshot)
		c.CopyFrom(s)
		list = append(list, c)
	}
	return list
}

func TestRoundTripOfRandomSnapshots(t *testing.T) {
	t.Parallel()
	for seed := range uint64(sized(6, 2)) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var list []*rt.Snapshot
		for i := range 300 {
			list = append(list, clone(randomSnapshot(rng, int64(i+1))))
		}
		r := stored(t, Options{CommitRows: 1 + int(seed)*5}, list)
		for _, from := range []int64{1, 2, 127, 128, 129, 130, 256, 299, 300} {
			to := min(from+3, 300)
			if from == 1 {
				to = 300
			}
			got := collect(t, r, from, to)
			if int64(len(got)) != to-from+1 {
				t.Fatalf("seed %d: %d snapshots from %d to %d", seed, len(got), from, to)
			}
			for i, s := range got {
				same(t, list[int(from)-1+i], s)
			}
		}
		n := 0
		for s, err := range r.Scalars(t.Context(), 1, 0) {
			if err != nil {
				t.Fatal(err)
			}
			want := *list[n]
			want.CPUs, want.Nets, want.Disks, want.Mounts, want.GPUs = nil, nil, nil, nil, nil
			want.Fabrics, want.RemoteFS, want.Steps, want.Procs = nil, nil, nil, nil
			want.GPUProcesses, want.Energy, want.Perf = nil, nil, nil
			same(t, &want, s)
			n++
		}
		if n != 300 {
			t.Errorf("Scalars gave %d snapshots, not 300", n)
		}
	}
}

// randomSnapshot leaves out any field or device now and then, and lets counters
// jump in both directions.
func randomSnapshot(rng *rand.Rand, seq int64) *rt.Snapshot {
	s := &rt.Snapshot{Seq: seq, Reason: rt.Reason(rng.IntN(5)), Boot: seq*1e9 + rng.Int64N(1000), Wall: 1.7e18 + rng.Int64N(1e15)}
	s.Job.Phase = rt.JobPhase(rng.IntN(4))
	for i, p := range optFields(s) {
		if rng.IntN(4) == 0 {
			continue
		}
		v := rng.Uint64N(1 << (1 + rng.IntN(50)))
		if _, isKiB := optColumns[i].field.(inKiB); isKiB && rng.IntN(3) > 0 {
			v = v / kib * kib
		}
		p.Set(v)
		if rng.IntN(20) == 0 {
			p.Set(rt.Unlimited)
		}
	}
	if rng.IntN(3) > 0 {
		s.Node.GPUUsage.Set(rng.Float64() * 8)
	}
	if rng.IntN(3) > 0 {
		s.GPU.Usage.Set(float64(rng.IntN(3)))
		s.Node.ReadBoot = floor(s.Boot-rng.Int64N(1e9), 1000)
	}
	if rng.IntN(4) > 0 {
		var times rt.CPUTimes
		for _, p := range tickFields(&times) {
			*p = rng.Uint64N(1 << 40)
		}
		s.Node.CPU.Set(times)
	}
	randomDevices(rng, s)
	for range 7 {
		randomKinds(rng, s)
	}
	return s
}

// randomKinds adds one thing of each kind, unless it is there already. Every field
// that is read is set or left out at random.
func randomKinds(rng *rand.Rand, s *rt.Snapshot) {
	name := string(rune('a' + rng.IntN(5)))
	if slices.ContainsFunc(s.Steps, func(r rt.StepReading) bool { return r.Step == name }) {
		return
	}
	s.Steps = append(s.Steps, rt.StepReading{Step: name, Task: rt.Some(rng.Uint64N(2)), Ended: rng.IntN(4) == 0})
	s.Procs = append(s.Procs, rt.ProcessReading{PID: 7, Start: 9, Comm: name})
	s.GPUProcesses = append(s.GPUProcesses, rt.GPUProcessReading{UUID: name, PID: 1})
	s.Fabrics = append(s.Fabrics, rt.FabricReading{Device: name, Port: 1, State: "ACTIVE"})
	s.RemoteFS = append(s.RemoteFS, rt.RemoteFSReading{Kind: "nfs", Source: name})
	s.Energy = append(s.Energy, rt.EnergyReading{Source: "powercap", Domain: name, Kind: rt.EnergyPackage, Socket: rt.Some[uint64](0)})
	s.Perf = append(s.Perf, rt.PerfReading{Group: "core", CPU: rng.Uint64N(2), Event: name})
	n := len(s.Steps) - 1
	for _, fields := range [][]rt.Field{
		s.Steps[n].Fields(), s.Procs[n].Fields(), s.GPUProcesses[n].Fields(),
		s.Fabrics[n].Fields(), s.RemoteFS[n].Fields(), s.Energy[n].Fields(), s.Perf[n].Fields(),
	} {
		for _, f := range fields {
			if f.Role != rt.Value || rng.IntN(4) == 0 {
				continue
			}
			switch p := f.At.(type) {
			case *rt.Opt[uint64]:
				p.Set(rng.Uint64N(1 << (1 + rng.IntN(40))))
			case *rt.Opt[float64]:
				p.Set(float64(rng.IntN(400)) / 4)
			}
		}
	}
}

func randomDevices(rng *rand.Rand, s *rt.Snapshot) {
	opt := func(n uint64) (o rt.Opt[uint64]) {
		if rng.IntN(5) > 0 {
			o.Set(rng.Uint64N(n))
		}
		return o
	}
	for cpu := range 6 {
		if rng.IntN(8) > 0 {
			ticks := uint64(s.Seq)*100 + rng.Uint64N(3)
			s.CPUs = append(s.CPUs, rt.CPUReading{CPU: cpu * 3, Times: rt.CPUTimes{User: ticks, SoftIRQ: rng.Uint64N(2), Idle: 5 * ticks, IOWait: rng.Uint64N(9)}})
		}
	}
	for slot, name := range []string{"a", "b", "c"} {
		if rng.IntN(6) == 0 {
			continue
		}
		speed := rt.Some[int64](-1 + rng.Int64N(2))
		s.Nets = append(s.Nets, rt.NetReading{Name: name, MTU: rt.Some[uint64](1500), SpeedMbps: speed, RxBytes: opt(3), TxBytes: opt(1 << 60)})
		s.Disks = append(s.Disks, rt.DiskReading{Name: name, Leaf: slot > 0, Type: "ssd", Capacity: opt(2), ReadBytes: opt(2), WriteBytes: opt(1 << 50)})
		s.Mounts = append(s.Mounts, rt.MountReading{Disk: name, MountPoint: "/" + name, FSType: "xfs", Total: 1 << 40, Available: rng.Uint64N(2), Used: 7})
		inJob := rt.Some(slot == 0)
		if slot == 2 {
			inJob.Clear()
		}
		g := rt.GPUReading{InJob: inJob, UUID: name, Name: "A100", Type: "GPU", VRAMTotal: opt(2), VRAMUsed: opt(1 << 40), Temperature: opt(90)}
		if rng.IntN(2) == 0 {
			g.Utilization.Set(rng.Float64() * 100)
			g.Power.Set(250)
			g.Detail = map[string]string{"driver": "550", "state": string(rune('0' + rng.IntN(2)))}
		}
		s.GPUs = append(s.GPUs, g)
	}
}

func TestReadingStopsWithItsContext(t *testing.T) {
	m := newMachine(1, 0)
	r := stored(t, Options{}, []*rt.Snapshot{clone(m.next()), clone(m.next())})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for s, err := range r.Scalars(ctx, 1, 0) {
		if err == nil {
			t.Errorf("snapshot %d after the context was cancelled", s.Seq)
		}
	}
}

// fill sets every field of a struct to something that is not zero.
func fill(v reflect.Value, n *int64) {
	*n++
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = start.Add(time.Duration(*n) * time.Second)
		return
	case *rt.Opt[uint64]:
		p.Set(uint64(*n))
		return
	case *rt.Opt[int64]:
		p.Set(*n)
		return
	case *rt.Opt[float64]:
		p.Set(float64(*n) + 0.5)
		return
	case *map[string]string:
		*p = map[string]string{"slurm_user": "ada", "ü": strings.Repeat("x", 3000)}
		return
	case *[]string:
		*p = []string{"sh", "-c", "echo 'a b'"}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.String:
		v.SetString("text " + string(rune('a'+*n%26)))
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(*n)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.25)
	}
}

// Every field of the run, the host, the events, the registration and the batches
// has a column: a new field that is forgotten here fails.
func TestRoundTripOfRecords(t *testing.T) {
	var n int64
	var run rt.Run
	var host rt.Host
	fill(reflect.ValueOf(&run).Elem(), &n)
	fill(reflect.ValueOf(&host).Elem(), &n)
	run.Step, run.Node = "0", "n1"
	w, err := Create(t.TempDir(), run, host, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var event rt.Event
	fill(reflect.ValueOf(&event).Elem(), &n)
	w.Event(event)
	m := newMachine(1, 0)
	if err := w.Put(m.next()); err != nil {
		t.Fatal(err)
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	run.State = rt.StateEnded
	r := mustOpen(t, w.Path())
	if diff := cmp.Diff(run, r.Run(), optCmp); diff != "" {
		t.Errorf("run:\n%s", diff)
	}
	if diff := cmp.Diff(host, r.Host(), optCmp); diff != "" {
		t.Errorf("host:\n%s", diff)
	}
	events, err := r.Events()
	if diff := cmp.Diff([]rt.Event{event}, events); err != nil || diff != "" {
		t.Errorf("events: %v\n%s", err, diff)
	}
	var reg rt.Registration
	fill(reflect.ValueOf(&reg).Elem(), &n)
	if err := r.Delivery().SaveRegistration(reg); err != nil {
		t.Fatal(err)
	}
	var batch rt.Batch
	fill(reflect.ValueOf(&batch).Elem(), &n)
	batch.Number, batch.FirstSeq, batch.LastSeq = 1, 1, 1
	if err := r.Delivery().SealBatch(batch); err != nil {
		t.Fatal(err)
	}
	gotReg, ok, err := r.Delivery().Registration()
	if diff := cmp.Diff(reg, gotReg); err != nil || !ok || diff != "" {
		t.Errorf("registration: %v %v\n%s", ok, err, diff)
	}
	batches, err := r.Delivery().Batches()
	if diff := cmp.Diff([]rt.Batch{batch}, batches); err != nil || diff != "" {
		t.Errorf("batches: %v\n%s", err, diff)
	}
}
