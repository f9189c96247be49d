package energy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

var opts = cmp.AllowUnexported(rt.Opt[uint64]{}, rt.Opt[float64]{})

// node is one tree of testdata/sys.txtar with a source over it.
type node struct {
	*Source
	dir  string
	boot time.Duration
}

func newNode(t *testing.T, name string) *node {
	t.Helper()
	a, err := txtar.ParseFile("testdata/sys.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		t.Fatal(err)
	}
	n := &node{Source: New(filepath.Join(dir, name)), dir: filepath.Join(dir, name), boot: time.Hour}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func (n *node) set(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, path), []byte(text+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// rapl sets what a zone has counted.
func (n *node) rapl(t *testing.T, zone string, microjoules uint64) {
	t.Helper()
	n.set(t, "class/powercap/intel-rapl:"+zone+"/energy_uj", strconv.FormatUint(microjoules, 10))
}

// after reads so much later.
func (n *node) after(d time.Duration) ([]rt.EnergyReading, error) {
	n.boot += d
	s := rt.Snapshot{Boot: int64(n.boot)}
	err := n.Read(&s)
	return s.Energy, err
}

func (n *node) want(t *testing.T, d time.Duration, want ...rt.EnergyReading) {
	t.Helper()
	got, err := n.after(d)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, opts); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func zone(domain string, kind rt.EnergyKind, socket int, energy uint64) rt.EnergyReading {
	e := rt.EnergyReading{Source: "powercap", Domain: domain, Kind: kind, Energy: rt.Some(energy)}
	if socket >= 0 {
		e.Socket.Set(uint64(socket))
	}
	return e
}

// A machine with one socket, every kind of zone, and the same package once more by
// memory-mapped registers.
func TestOneSocket(t *testing.T) {
	n := newNode(t, "one")
	n.want(t, 0, zone("package-0", rt.EnergyPackage, 0, 0), zone("psys", rt.EnergyPlatform, -1, 0), zone("package-0/core", rt.EnergyCore, 0, 0),
		zone("package-0/uncore", rt.EnergyUncore, 0, 0), zone("package-0/dram", rt.EnergyDRAM, 0, 0))
	n.rapl(t, "0", 5_000_000+12_345_678)
	n.rapl(t, "1", 9_000_000+20_000_001)
	n.rapl(t, "0:2", 300_000+1)
	n.want(t, time.Second, zone("package-0", rt.EnergyPackage, 0, 12_345_678), zone("psys", rt.EnergyPlatform, -1, 20_000_001),
		zone("package-0/core", rt.EnergyCore, 0, 0), zone("package-0/uncore", rt.EnergyUncore, 0, 0), zone("package-0/dram", rt.EnergyDRAM, 0, 1))
}

// Counters of two sockets wrap, each by its own range, and the totals go on.
func TestTwoSocketsWrap(t *testing.T) {
	const pkg, dram = 262143328850, 65712999613
	n := newNode(t, "two")
	n.rapl(t, "0", pkg-5)
	n.rapl(t, "1:0", dram-10)
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	n.rapl(t, "0", 95)
	n.rapl(t, "1", 2000+7)
	n.rapl(t, "1:0", 1)
	n.want(t, time.Second, zone("package-0", rt.EnergyPackage, 0, 100), zone("package-1", rt.EnergyPackage, 1, 7),
		zone("package-0/dram", rt.EnergyDRAM, 0, 0), zone("package-1/dram", rt.EnergyDRAM, 1, 11))
	n.rapl(t, "0", 90)
	n.rapl(t, "1:0", 0)
	n.want(t, 5*time.Minute, zone("package-0", rt.EnergyPackage, 0, 100+pkg-5), zone("package-1", rt.EnergyPackage, 1, 7),
		zone("package-0/dram", rt.EnergyDRAM, 0, 0), zone("package-1/dram", rt.EnergyDRAM, 1, 11+dram-1))
}

// Root may write 0 to a counter: no 262 kJ are made up of it.
func TestSetBack(t *testing.T) {
	n := newNode(t, "two")
	n.rapl(t, "0", 5_000_000_000)
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	n.rapl(t, "0", 5_000_000_100)
	if _, err := n.after(time.Second); err != nil {
		t.Fatal(err)
	}
	n.rapl(t, "0", 50)
	got, err := n.after(time.Second)
	if err == nil || !strings.Contains(err.Error(), "was reset") || got[0].Energy != rt.Some[uint64](100) {
		t.Errorf("a counter that was reset: %v, %+v", err, got[0])
	}
	n.rapl(t, "0", 70)
	if got, err := n.after(time.Second); err != nil || got[0].Energy != rt.Some[uint64](120) {
		t.Errorf("after it: %v, %+v", err, got[0])
	}
}

func TestEightSockets(t *testing.T) {
	n := newNode(t, "eight")
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	var want []rt.EnergyReading
	for i := range 8 {
		n.rapl(t, strconv.Itoa(i), uint64(1_000_000*i+(i+1)*1_000_003))
		want = append(want, zone("package-"+strconv.Itoa(i), rt.EnergyPackage, i, uint64((i+1)*1_000_003)))
	}
	n.want(t, time.Second, want...)
}

// AMD's zones are there under Intel's name, a package for each die.
func TestAMD(t *testing.T) {
	n := newNode(t, "amd")
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	n.rapl(t, "0", 7+3_000_000)
	n.rapl(t, "1", 9+2_000_000)
	n.rapl(t, "0:0", 3+1_000_000)
	n.want(t, time.Second, zone("package-0-die-0", rt.EnergyPackage, 0, 3_000_000), zone("package-0-die-1", rt.EnergyPackage, 0, 2_000_000),
		zone("package-0-die-0/core", rt.EnergyCore, 0, 1_000_000))
}

func TestAMDEnergy(t *testing.T) {
	n := newNode(t, "amdhwmon")
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	n.set(t, "class/hwmon/hwmon3/energy2_input", "5100")
	n.set(t, "class/hwmon/hwmon3/energy3_input", "6200")
	socket := func(i uint64, e uint64) rt.EnergyReading {
		return rt.EnergyReading{Source: "hwmon", Domain: "package-" + strconv.FormatUint(i, 10), Kind: rt.EnergyPackage, Socket: rt.Some(i), Energy: rt.Some(e)}
	}
	n.want(t, time.Second, socket(0, 100), socket(1, 200))
	n.set(t, "class/hwmon/hwmon3/energy2_input", "40") // it counts 64 bits: this is no wrap
	got, err := n.after(time.Second)
	if err == nil || !strings.Contains(err.Error(), "fell from 5100 to 40") || got[0].Energy != rt.Some[uint64](100) {
		t.Errorf("a counter that fell: %v, %+v", err, got)
	}
}

// A power meter is read every 10 s, and one that is slow every 10 minutes; never
// while the job waits for the first reading.
func TestPowerMeter(t *testing.T) {
	n := newNode(t, "meter")
	meter := rt.EnergyReading{Source: "hwmon", Domain: "power_meter", Kind: rt.EnergyNode}
	at := func(watts float64) rt.EnergyReading { m := meter; m.Power.Set(watts); return m }
	n.want(t, 0, meter)
	n.want(t, time.Second, at(412.5))
	n.want(t, 9*time.Second, meter)
	n.set(t, "class/hwmon/hwmon1/power1_average", "98000000")
	n.want(t, time.Second, at(98))
	clock := time.Time{}
	n.now = func() time.Time { clock = clock.Add(80 * time.Millisecond); return clock }
	got, err := n.after(10 * time.Second)
	if err == nil || !strings.Contains(err.Error(), "took 80ms") || got[0].Power != rt.Some(98.0) {
		t.Errorf("a slow meter: %v, %+v", err, got)
	}
	n.now = time.Now
	n.want(t, 9*time.Minute, meter)
	n.want(t, time.Minute, at(98))
}

func TestCray(t *testing.T) {
	n := newNode(t, "cray")
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	n.set(t, "cray/pm_counters/energy", "1300 J")
	n.set(t, "cray/pm_counters/cpu_energy", "500 J 1700000001000000 us")
	n.set(t, "cray/pm_counters/accel1_energy", "211 J")
	part := func(name string, kind rt.EnergyKind, joules uint64) rt.EnergyReading {
		return rt.EnergyReading{Source: "pm_counters", Domain: name, Kind: kind, Energy: rt.Some(joules * 1e6)}
	}
	n.want(t, time.Second, part("node", rt.EnergyNode, 300), part("cpu", rt.EnergyPackage, 100), part("accel0", rt.EnergyGPU, 0),
		part("accel1", rt.EnergyGPU, 1), part("memory", rt.EnergyDRAM, 0))
	n.set(t, "cray/pm_counters/energy", "no number")
	if got, err := n.after(time.Second); err == nil || got[0].Energy.Valid() || got[1].Energy != rt.Some[uint64](100e6) {
		t.Errorf("a counter without a number: %v, %+v", err, got)
	}
}

func TestNothing(t *testing.T) {
	n := newNode(t, "none")
	if got, err := n.after(0); !errors.Is(err, fs.ErrNotExist) || len(got) != 0 {
		t.Errorf("%v, %+v", err, got)
	}
	if got, err := n.after(time.Minute); !errors.Is(err, fs.ErrNotExist) || len(got) != 0 { // it is still not there
		t.Errorf("%v, %+v", err, got)
	}
}

// A domain that may not be read is denied, the others are read, and both are reported.
func TestDenied(t *testing.T) {
	n := newNode(t, "two")
	for _, zone := range []string{"0", "0:0"} {
		if err := os.Chmod(filepath.Join(n.dir, "class/powercap/intel-rapl:"+zone+"/energy_uj"), 0); err != nil {
			t.Fatal(err)
		}
	}
	for dir := n.dir; strings.Contains(dir, t.Name()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, func() {
		got, err := n.after(0)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "intel-rapl:0/energy_uj") {
			t.Errorf("%v", err)
		}
		if len(got) != 2 || got[0].Domain != "package-1" || !got[0].Energy.Valid() {
			t.Errorf("%+v", got)
		}
	})
}

// asNobody does something on a thread that is not root's to the file system.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() == 0 {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := unix.Setfsuid(0); err != nil {
				t.Error(err)
			}
		}()
	}
	do()
}

// What was opened is read when it may no longer be opened.
func TestOpenedBefore(t *testing.T) {
	n := newNode(t, "eight")
	n.discover()
	for i := range 8 {
		if err := os.Rename(filepath.Join(n.dir, "class/powercap/intel-rapl:"+strconv.Itoa(i)), filepath.Join(n.dir, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	got, err := n.after(0)
	if err != nil || len(got) != 8 || !got[7].Energy.Valid() {
		t.Errorf("%v, %+v", err, got)
	}
}

// vanishing is a counter of the kernel that can be removed: a file of a cgroup.
func vanishing(t *testing.T) (path string, set func(v string), remove func()) {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		dir := filepath.Join(mount, "rt-energy-"+strconv.Itoa(os.Getpid()))
		if _, err := os.Stat(filepath.Join(mount, "cgroup.controllers")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		path := filepath.Join(dir, "cgroup.max.depth")
		t.Cleanup(func() { _ = os.Remove(dir) }) // it is gone but for a test that failed
		return path, func(v string) {
				if err := os.WriteFile(path, []byte(v), 0o644); err != nil {
					t.Fatal(err)
				}
			}, func() {
				if err := os.Remove(dir); err != nil {
					t.Fatal(err)
				}
			}
	}
	t.Skip("only root can make a cgroup, the files of which vanish as a driver's do")
	return "", nil, nil
}

// A domain that vanishes has no value, the others go on; when it is back it is
// counted again from there.
func TestVanishes(t *testing.T) {
	path, set, remove := vanishing(t)
	n := newNode(t, "two")
	link := filepath.Join(n.dir, "class/powercap/intel-rapl:0/energy_uj")
	for _, err := range []error{os.Remove(link), os.Symlink(path, link)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	set("1000")
	if _, err := n.after(0); err != nil {
		t.Fatal(err)
	}
	set("1500")
	if got, err := n.after(time.Second); err != nil || got[0].Energy != rt.Some[uint64](500) {
		t.Errorf("%v, %+v", err, got)
	}
	remove()
	n.rapl(t, "1", 2000+70)
	for range 2 {
		got, err := n.after(time.Second)
		if err == nil || !strings.Contains(err.Error(), "energy_uj: no such device") || got[0].Energy.Valid() || got[1].Energy != rt.Some[uint64](70) {
			t.Errorf("without it: %v, %+v", err, got)
		}
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	n.rapl(t, "0", 300_000)
	if got, err := n.after(time.Minute); err != nil || got[0].Energy != rt.Some[uint64](500) {
		t.Errorf("back: %v, %+v", err, got)
	}
	n.rapl(t, "0", 300_009)
	if got, err := n.after(time.Second); err != nil || got[0].Energy != rt.Some[uint64](509) {
		t.Errorf("back for a second: %v, %+v", err, got)
	}
}

func TestReadAllocatesNothing(t *testing.T) {
	for _, name := range []string{"eight", "cray", "meter"} {
		n := newNode(t, name)
		s := rt.Snapshot{Boot: int64(time.Hour)}
		if err := n.Read(&s); err != nil {
			t.Fatal(err)
		}
		if got := testing.AllocsPerRun(100, func() {
			s.Boot, s.Energy = s.Boot+int64(100*time.Millisecond), s.Energy[:0]
			if err := n.Read(&s); err != nil {
				t.Fatal(err)
			}
		}); got != 0 {
			t.Errorf("%s: %g allocations for each reading", name, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"123\n", "1234 J\n", "1234 J 1400000000 us\n", "18446744073709551615", "18446744073709 J\n", "-1\n", " 0", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := strings.TrimFunc(string(b), func(c rune) bool { return c <= ' ' })
		words := strings.FieldsFunc(text, func(c rune) bool { return c == ' ' || c == '\t' })
		words = append(words, "", "")
		want, err := strconv.ParseUint(words[0], 10, 64)
		isNumber := err == nil && !strings.HasPrefix(words[0], "+")
		v, ok := parse(b, microjoules)
		isAlone := words[1] == ""
		if ok != (isNumber && isAlone) || ok && v != want {
			t.Errorf("%q is %d, %v; want %d, %v", b, v, ok, want, err)
		}
		isJoules := words[1] == "J" && want <= 18446744073709
		v, ok = parse(b, joules)
		if ok != (isNumber && isJoules) || ok && v != want*1e6 {
			t.Errorf("%q J is %d, %v; want %d, %v", b, v, ok, want, err)
		}
	})
}
