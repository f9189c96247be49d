package gpu

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// insides lets cmp look into rt.Opt.
var insides = cmp.Exporter(func(reflect.Type) bool { return true })

// ample is a maxWait that no test outlasts, however busy its machine.
const ample = 5 * time.Minute

// open returns the source of a node, to be closed with the test.
func open(t testing.TB, dev, sys string, options ...Option) *Source {
	t.Helper()
	s := New(dev, sys, options...)
	s.maxWait = ample
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// wantSums checks the node's GPU sums.
func wantSums(t testing.TB, n *rt.NodeReading, usage rt.Opt[float64], vram, utilized rt.Opt[uint64]) {
	t.Helper()
	want := rt.NodeReading{GPUUsage: usage, GPUVRAMUsed: vram, GPUUtilized: utilized}
	got := rt.NodeReading{GPUUsage: n.GPUUsage, GPUVRAMUsed: n.GPUVRAMUsed, GPUUtilized: n.GPUUtilized}
	if diff := cmp.Diff(want, got, insides); diff != "" {
		t.Errorf("the node's sums (-want +got):\n%s", diff)
	}
}

// touch makes empty files below a new directory, and returns it.
func touch(t testing.TB, paths ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range paths {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func wantNoGPU(t *testing.T, src *Source) {
	t.Helper()
	s := rt.Snapshot{GPUs: []rt.GPUReading{{UUID: "of the snapshot before"}}[:0]}
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	if len(s.GPUs) != 0 {
		t.Errorf("devices: %v", s.GPUs)
	}
	if len(s.GPUProcesses) != 0 {
		t.Errorf("processes: %v", s.GPUProcesses)
	}
	wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
	if n := s.Node.GPUs; n != rt.Some[uint64](0) {
		t.Errorf("the number of GPUs is %v", n)
	}
	if s.GPU.Valid() {
		t.Errorf("the use of no GPU: %+v", s.GPU)
	}
	if got := rt.Derive(nil, &s, rt.ScopeNode).GPU; got == nil || len(got) != 0 {
		t.Errorf("the sample's devices: %v", got)
	}
}

func TestT_GPU_01(t *testing.T) {
	for name, paths := range map[string][]string{
		"no GPU":                         nil,
		"amdgpu loaded without a card":   {"module/amdgpu/version", amdDriver + "/bind"},
		"amdgpu loaded, its driver gone": {"module/amdgpu/version"},
		"a card without its module":      {amdDriver + "/0000:c1:00.0/gpu_busy_percent"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := touch(t, paths...)
			wantNoGPU(t, open(t, dir, dir))
		})
	}
	t.Run("this machine", func(t *testing.T) {
		cards, err := filepath.Glob("/sys/" + amdDriver + "/*:*")
		if err != nil {
			t.Fatal(err)
		}
		src := open(t, "/dev", "/sys", WithTracked(Tracked{PIDs: func(dst []int) []int { return append(dst, os.Getpid()) }}))
		if !exists("/dev/nvidiactl") && len(cards) == 0 {
			wantNoGPU(t, src)
			return
		}
		var s rt.Snapshot
		if err := src.Read(&s); err == nil && len(s.GPUs) == 0 {
			t.Error("this machine has a GPU, which is neither listed nor said to be out of reach")
		}
	})
}

// bounds reads every kind of node there is a fixture of, and hands each device to check.
func bounds(t *testing.T, check func(t *testing.T, g rt.GPUMetrics)) {
	t.Helper()
	for name, src := range fixtures(t) {
		t.Run(name, func(t *testing.T) {
			var s rt.Snapshot
			if err := src.Read(&s); err != nil {
				t.Fatal(err)
			}
			sample := rt.Derive(nil, &s, rt.ScopeNode)
			if len(sample.GPU) == 0 {
				t.Fatal("no device")
			}
			for _, g := range sample.GPU {
				check(t, g)
			}
		})
	}
}

func TestT_GPU_02(t *testing.T) {
	bounds(t, func(t *testing.T, g rt.GPUMetrics) {
		if v, ok := g.UtilizationPct.Get(); ok && (v < 0 || v > 100) {
			t.Errorf("%s: utilization %v %%", g.UUID, v)
		}
	})
}

func TestT_GPU_03(t *testing.T) {
	bounds(t, func(t *testing.T, g rt.GPUMetrics) {
		if used, ok := g.VRAMUsedBytes.Get(); ok && (!g.VRAMTotalBytes.Valid() || used > g.VRAMTotalBytes.Or(0)) {
			t.Errorf("%s: %d of %v bytes", g.UUID, used, g.VRAMTotalBytes)
		}
	})
}

func TestT_GPU_04(t *testing.T) {
	sys := amdNode(t)
	card := filepath.Join(sys, amdDriver, "0000:c1:00.0")
	for _, f := range []string{"mem_info_vram_total", "mem_info_vram_used"} {
		if err := os.WriteFile(filepath.Join(card, f), []byte("0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var s rt.Snapshot
	if err := open(t, t.TempDir(), sys).Read(&s); err != nil {
		t.Fatal(err)
	}
	g := rt.Derive(nil, &s, rt.ScopeNode).GPU[0]
	if v, ok := g.VRAMTotalBytes.Get(); !ok || v != 0 {
		t.Fatalf("the card's memory is %v, %v", v, ok)
	}
	if v, ok := g.VRAMUsedPct.Get(); !ok || v != 0 {
		t.Errorf("%v %% of no memory, %v", v, ok)
	}
}

func TestT_GPU_05(t *testing.T) {
	var s rt.Snapshot
	if err := open(t, t.TempDir(), amdNode(t)).Read(&s); err != nil {
		t.Fatal(err)
	}
	var uuids []string
	for _, g := range rt.Derive(nil, &s, rt.ScopeNode).GPU {
		uuids = append(uuids, g.UUID)
	}
	if diff := cmp.Diff([]string{"0000:c1:00.0", "0000:e3:00.0", "0000:e4:00.0"}, uuids); diff != "" {
		t.Error(diff)
	}
}

func TestSums(t *testing.T) {
	busy := rt.GPUReading{Utilization: rt.Some(50.0), VRAMUsed: rt.Some[uint64](8)}
	idle := rt.GPUReading{Utilization: rt.Some(0.0), VRAMUsed: rt.Some[uint64](1)}
	instance := rt.GPUReading{VRAMUsed: rt.Some[uint64](4), Detail: map[string]string{"parent_uuid": "GPU-1"}}
	divided := rt.GPUReading{UUID: "GPU-1", Detail: map[string]string{"mig_mode": "enabled"}}
	for _, tc := range []struct {
		name           string
		r              reading
		usage          rt.Opt[float64]
		vram, utilized rt.Opt[uint64]
	}{
		{"no device", reading{}, rt.None[float64](), rt.None[uint64](), rt.None[uint64]()},
		{"no device, for a reason", reading{err: os.ErrNotExist}, rt.None[float64](), rt.None[uint64](), rt.None[uint64]()},
		{"all report", reading{devices: []rt.GPUReading{busy, idle, busy}}, rt.Some(1.0), rt.Some[uint64](17), rt.Some[uint64](2)},
		{"one cannot report", reading{devices: []rt.GPUReading{busy, {VRAMUsed: rt.Some[uint64](4)}}}, rt.None[float64](), rt.Some[uint64](12), rt.None[uint64]()},
		{"one without memory", reading{devices: []rt.GPUReading{busy, {Utilization: rt.Some(0.0)}}}, rt.Some(0.5), rt.None[uint64](), rt.Some[uint64](1)},
		{"idle and divided", reading{devices: []rt.GPUReading{idle, divided, instance}}, rt.None[float64](), rt.Some[uint64](5), rt.None[uint64]()},
		{"divided without parts", reading{devices: []rt.GPUReading{divided}}, rt.None[float64](), rt.None[uint64](), rt.None[uint64]()},
		{"none can report", reading{devices: []rt.GPUReading{instance}}, rt.None[float64](), rt.Some[uint64](4), rt.None[uint64]()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := rt.GPUUse{Usage: tc.usage, VRAMUsed: tc.vram, Utilized: tc.utilized}
			got := tc.r.sumDevices(func(*rt.GPUReading) bool { return true })
			if diff := cmp.Diff(want, got, insides); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestReadingNoGPUAllocatesNothing(t *testing.T) {
	src := open(t, t.TempDir(), t.TempDir())
	var s rt.Snapshot
	read := func() {
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	read()
	if n := testing.AllocsPerRun(10, read); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
}
