package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
)

// contextFixture writes testdata/context.txtar out.
func contextFixture(t *testing.T) FS {
	t.Helper()
	a, err := txtar.ParseFile("testdata/context.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	return NewFS(dir+"/proc", dir+"/sys")
}

func TestLoad(t *testing.T) {
	if s := once(t, NewLoad(contextFixture(t))); s.Node.Load1 != u64(1207) {
		t.Errorf("load %v", s.Node.Load1)
	}
	for _, text := range []string{"", "1", "1.2", "1.234", "x.00", "-1.00", "1.0x", "99999999999999999.00"} {
		if v, ok := parseLoad([]byte(text)); ok {
			t.Errorf("%q is a load of %d", text, v)
		}
	}
}

func TestCPUFreq(t *testing.T) {
	root := contextFixture(t)
	s := rt.Snapshot{Boot: 1}
	if err := NewCPU(root).Read(&s); err != nil {
		t.Fatal(err)
	}
	src := NewCPUFreq(root)
	src.now = func() time.Time { return time.Time{} } // however busy this machine is
	if err := src.Read(&s); err != nil || s.Node.CPUFreq != u64(2500001) {
		t.Errorf("%v, %v: the mean of two that are online and have one", s.Node.CPUFreq, err)
	}
	s.Node.CPUFreq.Clear()
	if err := src.Read(&s); err != nil || s.Node.CPUFreq.Valid() {
		t.Errorf("read again at once: %v, %v", s.Node.CPUFreq, err)
	}
	s.Boot += int64(freqPause)
	if err := src.Read(&s); err != nil || !s.Node.CPUFreq.Valid() {
		t.Errorf("not read again: %v, %v", s.Node.CPUFreq, err)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// Without frequencies the status is the same at every reading, however short the interval.
func TestCPUFreqIsAbsentAtEveryReading(t *testing.T) {
	src := NewCPUFreq(FS{Sys: t.TempDir()})
	s := rt.Snapshot{CPUs: []rt.CPUReading{{CPU: 0}}}
	for range 2000 {
		if err := src.Read(&s); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("at %s: %v", time.Duration(s.Boot), err)
		}
		s.Boot += int64(freqPause / 500)
	}
}

// A kernel that sleeps for every CPU is read seldom; one of a busy machine is read again.
func TestCPUFreqOfASlowKernel(t *testing.T) {
	root := contextFixture(t)
	s := rt.Snapshot{CPUs: []rt.CPUReading{{CPU: 0}, {CPU: 3}}}
	src := NewCPUFreq(root)
	var at time.Time
	takes := time.Duration(0)
	src.now = func() time.Time { at = at.Add(takes); return at }
	for _, step := range []struct {
		after, takes time.Duration
		want         bool
	}{
		{0, 60 * time.Millisecond, false}, {freqPause, 60 * time.Millisecond, false},
		{freqPause, 0, true}, // it was busy
		{freqPause, 60 * time.Millisecond, false}, {freqPause, 60 * time.Millisecond, false}, {freqPause, 60 * time.Millisecond, false},
		{freqPause, 0, false}, // it is not asked
		{freqAgain, 60 * time.Millisecond, false}, {freqPause, 0, false}, {freqAgain, 0, true},
	} {
		s.Boot += int64(step.after)
		s.Node.CPUFreq.Clear()
		takes = step.takes
		if err := src.Read(&s); (err == nil) != step.want || s.Node.CPUFreq.Valid() != step.want {
			t.Errorf("%+v, at %s: %v, %v", step, time.Duration(s.Boot), s.Node.CPUFreq, err)
		}
	}
}

func TestFabric(t *testing.T) {
	root := contextFixture(t)
	src := NewFabric(root)
	var s rt.Snapshot
	read := func() {
		t.Helper()
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
	}
	read()
	want := []rt.FabricReading{
		{
			Device: "hfi1_0", Port: 1, Link: "Omni-Path", State: "ACTIVE", RateMbps: u64(100000),
			RxBytes: u64(20), TxBytes: u64(24), TxPackets: u64(8),
		},
		{
			Device: "mlx5_0", Port: 1, Link: "InfiniBand", State: "ACTIVE", RateMbps: u64(200000),
			RxBytes: u64(4000), TxBytes: u64(1 << 63), RxPackets: u64(11), TxPackets: u64(12),
		},
		{Device: "mlx5_bond_0", Port: 1, Link: "Ethernet", State: "DOWN", RateMbps: u64(2500)},
	}
	if d := cmp.Diff(want, s.Fabrics, opts); d != "" {
		t.Errorf("ports (-want +got):\n%s", d)
	}
	write(t, root.Sys+"/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data", "1500\n")
	read()
	if got := s.Fabrics[1].RxBytes; got != u64(6000) {
		t.Errorf("then %v", got)
	}
	if n := testing.AllocsPerRun(20, read); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
	if err := os.RemoveAll(root.Sys + "/class/infiniband"); err != nil {
		t.Fatal(err)
	}
	src.until = 0
	if err := src.Read(&s); !errors.Is(err, fs.ErrNotExist) || len(s.Fabrics) != 0 {
		t.Errorf("after the adapters went: %v, %v", s.Fabrics, err)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

// Drivers without the counters of InfiniBand's architecture, such as AWS's efa, count bytes in hw_counters. Some
// have the former, but without a number in them.
func TestFabricOfHardwareCounters(t *testing.T) {
	root := NewFS(t.TempDir(), t.TempDir())
	port := func(device, file, text string) {
		write(t, root.Sys+"/class/infiniband/"+device+"/ports/1/"+file, text+"\n")
	}
	for k, name := range []string{"rx_bytes", "tx_bytes", "rx_pkts", "tx_pkts"} {
		port("rdmap16s27", "hw_counters/"+name, fmt.Sprint(1000+k))
		port("bnxt_re0", "hw_counters/"+name, fmt.Sprint(2000+k))
	}
	for _, name := range []string{"port_rcv_data", "port_xmit_data"} {
		port("bnxt_re0", "counters/"+name, "N/A (no PMA)")
		port("mlx4_0", "counters/"+name, "N/A (no PMA)")
	}
	port("irdma0", "state", "4: ACTIVE")
	port("irdma0", "hw_counters/lifespan", "10")
	src := NewFabric(root)
	var s rt.Snapshot
	if err := src.Read(&s); err != nil {
		t.Fatal(err)
	}
	want := []rt.FabricReading{
		{Device: "bnxt_re0", Port: 1, RxBytes: u64(2000), TxBytes: u64(2001), RxPackets: u64(2002), TxPackets: u64(2003)},
		{Device: "irdma0", Port: 1, State: "ACTIVE"}, {Device: "mlx4_0", Port: 1},
		{Device: "rdmap16s27", Port: 1, RxBytes: u64(1000), TxBytes: u64(1001), RxPackets: u64(1002), TxPackets: u64(1003)},
	}
	if d := cmp.Diff(want, s.Fabrics, opts); d != "" {
		t.Errorf("ports (-want +got):\n%s", d)
	}
	if err := src.Close(); err != nil {
		t.Error(err)
	}
}

func TestRemoteFS(t *testing.T) {
	root := contextFixture(t)
	lustre, nfs := NewLustre(root), NewNFS(root)
	var s rt.Snapshot
	read := func() {
		t.Helper()
		s.RemoteFS = s.RemoteFS[:0]
		for _, src := range []reader{lustre, nfs} {
			if err := src.Read(&s); err != nil {
				t.Fatal(err)
			}
		}
	}
	read()
	want := []rt.RemoteFSReading{
		{Kind: "lustre", Source: "scratch", MountPoint: "/lustre/my scratch", ReadBytes: u64(17825792), WriteBytes: u64(10485760), Ops: u64(34 + 10 + 7 + 7 + 100)},
		{Kind: "lustre", Source: "home", ReadBytes: u64(0), WriteBytes: u64(10), Ops: u64(3)},
		{Kind: "nfs", Source: "10.0.0.9:/export/my home", MountPoint: "/home", ReadBytes: u64(4096), WriteBytes: u64(8192), Ops: u64(15)},
		{Kind: "nfs", Source: "old:/v3", MountPoint: "/v3"},
	}
	if d := cmp.Diff(want, s.RemoteFS, opts); d != "" {
		t.Errorf("file systems (-want +got):\n%s", d)
	}
	if n := testing.AllocsPerRun(20, read); n != 0 {
		t.Errorf("a reading makes %v allocations", n)
	}
	for _, src := range []reader{lustre, nfs} {
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Most nodes have none of it: they look for it once a minute.
func TestContextThatIsNotThere(t *testing.T) {
	dir := t.TempDir()
	root := NewFS(dir+"/proc", dir+"/sys")
	freq := NewCPUFreq(root)
	for name, src := range map[string]reader{"fabric": NewFabric(root), "lustre": NewLustre(root), "nfs": NewNFS(root), "freq": freq} {
		s := rt.Snapshot{CPUs: []rt.CPUReading{{}}}
		if err := src.Read(&s); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
		if n := testing.AllocsPerRun(10, func() { _ = src.Read(&s) }); n != 0 {
			t.Errorf("%s: a reading of nothing makes %v allocations", name, n)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

func FuzzContext(f *testing.F) {
	a, err := txtar.ParseFile("testdata/context.txtar")
	if err != nil || len(a.Files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, file := range a.Files {
		f.Add(file.Data)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		parseLoad(b)
		if v, ok := parseRate(b).Get(); ok && v > 1<<41 {
			t.Errorf("%q is a rate of %d", b, v)
		}
		var r rt.RemoteFSReading
		parseLlite(b, &r)
		lustreMountPoint(b, "scratch")
		var m mountstats
		first := len(m.all(b, nil))
		if second := len(m.all(b, nil)); first != second {
			t.Errorf("%q has %d mounts, then %d", b, first, second)
		}
	})
}
