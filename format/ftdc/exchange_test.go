package ftdc

import (
	"bytes"
	order "cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// scatter sets about half of the figures of a struct, within the limits of the format.
func scatter(r *rand.Rand, figures []field) {
	for _, f := range figures {
		x := r.IntN(8)
		switch p := f.at.(type) {
		case *rt.JobPhase:
			*p = rt.JobPhase(r.IntN(4))
		case *bool:
			*p = r.IntN(2) == 0
		case *uint64:
			*p = r.Uint64N(1 << 48)
		case *rt.Opt[float64]:
			if x >= 3 {
				p.Set(float64(r.Float32()))
			}
		case *rt.Opt[int64]:
			if x >= 3 {
				p.Set(r.Int64N(1<<47) - 1<<46)
			}
		case *rt.Opt[bool]:
			if x >= 3 {
				p.Set(r.IntN(2) == 0)
			}
		case *rt.Opt[uint64]:
			switch {
			case x == 3:
				p.Set(rt.Unlimited)
			case x > 3:
				p.Set(r.Uint64N(1<<48) >> r.IntN(48))
			}
		default:
			panic(fmt.Sprintf("%s is a %T", f.name, f.at))
		}
	}
}

// scattered returns a snapshot with some elements of every list.
func scattered(r *rand.Rand, i int64) rt.Snapshot {
	s := rt.Snapshot{
		Seq: i + 1, Boot: 1e15 + i*1e9, Wall: 1772367180e9 + i*1e9 + r.Int64N(3)*1e6, Reason: rt.Reason(r.IntN(5)),
		CPUs: make([]rt.CPUReading, 2), Nets: []rt.NetReading{{Name: "eth0.100"}, {Name: "ib0"}}, Disks: []rt.DiskReading{{Name: "sda"}},
		Mounts: []rt.MountReading{{Disk: "sda", FSType: "ext4", MountPoint: "/"}, {FSType: "tmpfs", MountPoint: "/run/a.b"}},
		GPUs:   []rt.GPUReading{{UUID: "GPU-1.2"}, {}}, Fabrics: []rt.FabricReading{{Device: "mlx5_0", Port: 1}},
		RemoteFS: []rt.RemoteFSReading{{Kind: "nfs", Source: "server:/home%2F/x", MountPoint: "/home/x"}},
		Steps:    []rt.StepReading{{Step: "batch"}, {Step: "0", Task: rt.Some[uint64](3)}},
		Energy:   []rt.EnergyReading{{Source: "powercap", Kind: rt.EnergyPackage, Domain: "package-0"}},
		Perf:     []rt.PerfReading{{Group: "core", Socket: 1, CPU: 3, Event: "instructions"}},
		Procs: []rt.ProcessReading{
			{PID: 7, Start: 9, Comm: "a/b.c d"}, {PID: 7, Start: 10, Comm: "sim", Step: "0", Task: rt.Some[uint64](3)}, {PID: 8, Start: 10, Comm: ""},
		},
		GPUProcesses: []rt.GPUProcessReading{{UUID: "GPU-1.2", PID: 7}, {UUID: "", PID: 8}},
	}
	for k := range s.Procs { // a process is missing
		if r.IntN(3) == 0 {
			s.Procs = slices.Delete(s.Procs, k, k+1)
			break
		}
	}
	s.Nets[0].MAC, s.Nets[1].OperState = "00:11", []string{"", "up", "down=1"}[r.IntN(3)]
	s.GPUs[0].Name, s.GPUs[0].Detail = "H.name=100", map[string]string{"driver_version": fmt.Sprint("5.", r.IntN(2))}
	for i := range s.CPUs {
		s.CPUs[i] = rt.CPUReading{CPU: i, Times: rt.CPUTimes{User: r.Uint64N(1 << 40), IOWait: r.Uint64N(9)}}
	}
	for _, f := range fixed(&s) {
		scatter(r, f.figures)
	}
	if r.IntN(2) == 0 {
		s.Node.CPU.Set(rt.CPUTimes{User: 7, Nice: 1, System: r.Uint64N(1 << 40), Idle: 5, IOWait: 9, IRQ: 2, SoftIRQ: 3, Steal: 4})
		s.Node.ReadBoot = s.Boot - 2e9
	}
	for i := range parts {
		for k := range parts[i].len(&s) {
			if parts[i].kind != "cpu" {
				scatter(r, parts[i].at(&s, k).figures)
			}
		}
	}
	return s
}

// seen drops the devices without a figure, which have no metrics in the file. It sorts the processes: the file has
// them in order of appearance.
func seen(s rt.Snapshot) rt.Snapshot {
	all := s
	for i := range parts {
		p := &parts[i]
		p.resize(&s, 0)
		for k := range p.len(&all) {
			known := p.transient
			for _, f := range p.at(&all, k).figures {
				_, ok := f.figure()
				known = known || ok
			}
			if known {
				p.move(&s, &all, k)
			}
		}
	}
	slices.SortFunc(s.Procs, func(a, b rt.ProcessReading) int { return cmpOf(a.PID, b.PID, a.Start, b.Start) })
	slices.SortFunc(s.GPUProcesses, func(a, b rt.GPUProcessReading) int { return cmpOf(a.PID, b.PID, 0, 0) })
	return s
}

func cmpOf(a, b, c, d uint64) int { return order.Or(order.Compare(a, b), order.Compare(c, d)) }

func exported(t testing.TB, run rt.Run, snapshots []rt.Snapshot) []byte {
	t.Helper()
	return exportedWith(t, &runFacts{run: run}, snapshots)
}

func exportedWith(t testing.TB, of *runFacts, snapshots []rt.Snapshot) []byte {
	t.Helper()
	survey := newProcessSurvey()
	for i := range snapshots {
		survey.addSnapshot(&snapshots[i])
	}
	var file bytes.Buffer
	e := newExport(&file, of, survey.selected())
	for i := range snapshots {
		if err := e.write(&snapshots[i]); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

func TestSnapshotsGoThroughFTDC(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := range 50 {
		var snapshots []rt.Snapshot
		for i := range int64(6) {
			snapshots = append(snapshots, scattered(r, i))
		}
		run := rt.Run{
			Identity: rt.Identity{
				Cluster: "c", JobID: rt.Some[uint64](12), Step: "0", Node: "n1.example.org", Attempt: 3, BootID: "b",
				Start: time.Unix(1772367179, 123456000).UTC(),
			},
			Allocation: rt.Allocation{
				User:      "anna",
				AllocCPUs: rt.Some[uint64](4), AllocMem: rt.Some[uint64](1<<40 + 1),
				WorkDir: "/home/a=b", NodeList: "n[1-2]",
			},
			Interval: 10,
			Command:  []string{"sim"},
			Meta:     rt.Metadata{JobName: "md.2", ContainerImage: "x:1", Tags: map[string]string{"slurm.qos": "a=b", "x": "y"}},
			Ending: rt.Ending{
				Outcome:  rt.OutcomeOOM,
				ExitCode: rt.Some[int64](-1),
				End:      time.Unix(1782367180, 654321000).UTC(),
			},
		}
		of := runFacts{run: run, host: rt.Host{HostName: "n1", CPUModel: "a = b", VCPUs: rt.Some[uint64](4), StorageGB: rt.Some(270.5)}}
		of.events = []rt.Event{
			{Time: time.Unix(1772367181, 5000).UTC(), Kind: "gap", Name: "readings", Status: "late", Detail: "5 readings = 3.5 s\nlater"},
			{Time: time.Unix(1772367190, 0).UTC(), Kind: "sensor", Name: "a/b", Status: "", Detail: ""},
			{Time: time.Unix(1772367190, 0).UTC(), Kind: "tracker", Name: "import", Status: "ok", Detail: "of another file"},
		}
		im := newImport(bytes.NewReader(exportedWith(t, &of, snapshots)))
		im.dec.AnyTime = false
		for i := range snapshots {
			if err := im.next(); err != nil {
				t.Fatal(err)
			}
			if want, got := seen(snapshots[i]), seen(im.s); !reflect.DeepEqual(got, want) {
				t.Fatalf("case %d, snapshot %d (-want +got):\n%s", n, i, cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })))
			}
		}
		if err := im.next(); err != io.EOF {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(im.run, run) {
			t.Fatalf("the run (-want +got):\n%s", cmp.Diff(run, im.run, cmp.Exporter(func(reflect.Type) bool { return true })))
		}
		if im.host != of.host || len(im.events) != 2 || *im.events[0] != of.events[0] || *im.events[1] != of.events[1] {
			t.Fatalf("%+v and %v, not %+v", im.host, im.events, of)
		}
	}
}

// If the wall clock is set, or the machine is suspended for days, intervals follow the boot clock
// and times follow the wall clock.
func TestFTDCKeepsBothClocks(t *testing.T) {
	const day = 86_400e9
	var snapshots []rt.Snapshot
	for i, at := range [][2]int64{{0, 0}, {1e9, 1e9}, {2e9, -3600e9}, {3e9, -3599e9}, {3 * day, 3*day - 3602e9}, {3*day + 1e9, 9 * day}} {
		snapshots = append(snapshots, rt.Snapshot{Seq: int64(i + 1), Boot: 7e15 + at[0], Wall: 1772367180e9 + at[1]})
	}
	im := newImport(bytes.NewReader(exported(t, rt.Run{Identity: rt.Identity{Node: "n1"}}, snapshots)))
	for i := range snapshots {
		if err := im.next(); err != nil {
			t.Fatal(err)
		}
		if im.s.Boot != snapshots[i].Boot || im.s.Wall != snapshots[i].Wall {
			t.Errorf("snapshot %d: boot %d, wall %d; want %d, %d", i, im.s.Boot, im.s.Wall, snapshots[i].Boot, snapshots[i].Wall)
		}
	}
}

// The metrics have the names of the fields: readers of files rely on them.
func TestNames(t *testing.T) {
	s := rt.Snapshot{GPUs: make([]rt.GPUReading, 1), CPUs: make([]rt.CPUReading, 1)}
	run, host := rt.Run{}, rt.Host{}
	all := slices.Concat(runOf(&run).figures, runOf(&run).texts, hostOf(&host).figures, hostOf(&host).texts)
	for _, f := range fixed(&s) {
		all = append(all, f.figures...)
	}
	for i := range parts {
		for k := range parts[i].len(&s) {
			all = slices.Concat(all, parts[i].at(&s, k).figures, parts[i].at(&s, k).texts)
		}
	}
	for _, want := range []field{
		{"mem_total", &s.Node.MemTotal}, {"cpu_usage", &s.Job.CPUUsage}, {"cpus", &s.Node.CPUs}, {"gpu_vram_used", &s.Node.GPUVRAMUsed},
		{"gpu_usage", &s.Node.GPUUsage}, {"sreclaimable", &s.Node.SReclaimable}, {"io_read_bytes", &s.Job.IOReadBytes},
		{"events_oom_kill", &s.Job.EventsOOMKill}, {"soft_irq", &s.CPUs[0].Times.SoftIRQ}, {"io_wait", &s.CPUs[0].Times.IOWait},
		{"irq", &s.CPUs[0].Times.IRQ}, {"rss", &s.Tree.RSS}, {"rdma_handles", &s.Job.RDMAHandles}, {"load1", &s.Node.Load1},
		{"vram_used", &s.GPUs[0].VRAMUsed}, {"phase", &s.Job.Phase}, {"usage", &s.GPU.Usage}, {"gpu_vram_mib", &host.GPUVRAMMiB},
		{"job_name", &run.Meta.JobName}, {"het_job_offset", &run.HetJobOffset},
	} {
		if !slices.Contains(all, want) {
			t.Errorf("no metric of this field is named %s", want.name)
		}
	}
}

// Every field of a run, of its host and of a snapshot is exported. Readings in lists export what their method Fields
// lists; the tests of rt check it.
func TestEveryFieldIsExported(t *testing.T) {
	var s rt.Snapshot
	run, host := rt.Run{}, rt.Host{}
	known := map[any]bool{&s.Node.CPU: true}
	for _, f := range fixed(&s) {
		for _, f := range f.figures {
			known[f.at] = true
		}
	}
	for _, n := range []noun{runOf(&run), hostOf(&host)} {
		for _, f := range slices.Concat(n.figures, n.texts) {
			known[f.at] = true
		}
	}
	for _, p := range runTimes(&run) {
		known[p.at] = true
	}
	known[(*string)(&run.State)], known[&run.Command] = true, true // the state of an imported run is always ended; the command is a text
	for _, v := range []any{&s.Node, &s.Job, &s.GPU, &s.Tree, &run.Identity, &run.Allocation, &run.Meta, &run.Ending, &run, &host} {
		of := reflect.ValueOf(v).Elem()
		for i := range of.NumField() {
			f := of.Type().Field(i)
			at := of.Field(i).Addr()
			if !f.IsExported() || f.Type == reflect.TypeFor[rt.Metadata]() || f.Anonymous || v == any(&s.Node) && f.Name == "ReadBoot" {
				continue
			}
			if f.Type.Kind() == reflect.String {
				at = at.Convert(reflect.TypeFor[*string]())
			}
			if !known[at.Interface()] {
				t.Errorf("%s.%s is not exported as FTDC", of.Type(), f.Name)
			}
		}
	}
	lists := map[reflect.Type]bool{}
	for i := range parts {
		one := rt.Snapshot{}
		parts[i].resize(&one, 1)
		for v, i := reflect.ValueOf(one), 0; i < v.NumField(); i++ {
			if f := v.Field(i); f.Kind() == reflect.Slice && f.Len() == 1 {
				lists[f.Type()] = true
			}
		}
	}
	for i := range reflect.TypeFor[rt.Snapshot]().NumField() {
		if f := reflect.TypeFor[rt.Snapshot]().Field(i); f.Type.Kind() == reflect.Slice && !lists[f.Type] {
			t.Errorf("Snapshot.%s is not exported as FTDC", f.Name)
		}
	}
}

// Any file gives snapshots, an error, or both.
func FuzzImportFTDC(f *testing.F) {
	r := rand.New(rand.NewPCG(9, 10))
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1", Start: time.Unix(1772367179, 0)}, Meta: rt.Metadata{JobName: "md"}}
	for i := range int64(4) {
		file := exported(f, run, []rt.Snapshot{scattered(r, i), scattered(r, i+1)})
		f.Add(file)
		f.Add(file[:len(file)/2])
		f.Add(bytes.Replace(file, []byte("cpu.0"), []byte("cpu.x"), 1))
		f.Add(bytes.Replace(file, []byte("step.3/0"), []byte("step.-/0"), 1))
	}
	f.Add([]byte("\x01[\"snapshot.reason\",\"snapshot.boot_secs\",\"snapshot.clock_secs\",\"job.phase\"]\n\x02\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, file []byte) {
		im := newImport(bytes.NewReader(file))
		last := int64(-1 << 63)
		for range 1000 {
			err := im.next()
			if err != nil {
				return
			}
			if im.last < last {
				t.Fatalf("time went back from %d to %d", last, im.last)
			}
			last = im.last
			_ = rt.Derive(nil, &im.s, rt.ScopeJob)
		}
	})
}

// A file that is damaged makes a run of the readings before the damage; a disk that fails makes none.
func TestImportOfAFileThatCannotBeRead(t *testing.T) {
	file := exported(t, rt.Run{Identity: rt.Identity{Node: "n1", Start: time.Unix(1772367180, 0)}}, []rt.Snapshot{
		{Seq: 1, Boot: 1e9, Wall: 1772367180e9}, {Seq: 2, Boot: 2e9, Wall: 1772367181e9},
	})
	cut := file[:len(file)-1]
	broken := errors.New("the disk is broken")
	for name, c := range map[string]struct {
		from io.Reader
		want error
		runs int
	}{
		"cut":         {bytes.NewReader(cut), ErrDamaged, 1},
		"disk failed": {io.MultiReader(bytes.NewReader(cut), iotest.ErrReader(broken)), broken, 0},
	} {
		dir := t.TempDir()
		paths, err := Import(dir, nil, "f.ftdc", c.from)
		left, globErr := filepath.Glob(filepath.Join(dir, "*.db"))
		if !errors.Is(err, c.want) || len(paths) != c.runs || len(left) != c.runs || globErr != nil {
			t.Errorf("%s: %v, %v, in the spool %v", name, paths, err, left)
		}
	}
}
