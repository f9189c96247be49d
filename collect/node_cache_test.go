package collect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

var cacheOpts = cmp.Options{
	cmp.AllowUnexported(rt.Opt[uint64]{}, rt.Opt[int64]{}, rt.Opt[float64]{}, rt.Opt[rt.CPUTimes]{}),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == reflect.TypeFor[rt.JobReading]() }, cmp.Ignore()),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == reflect.TypeFor[rt.TreeReading]() }, cmp.Ignore()),
}

// fill gives every field of v another value, absent ones and zeros among them.
func fill(v reflect.Value, n *uint64) {
	*n += 7919
	switch {
	case v.Kind() == reflect.Struct && strings.HasPrefix(v.Type().Name(), "Opt["):
		if *n%5 == 0 {
			return
		}
		set := v.Addr().MethodByName("Set")
		arg := reflect.New(set.Type().In(0)).Elem()
		fill(arg, n)
		set.Call([]reflect.Value{arg})
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), n)
			}
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 3, 3))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case v.Kind() == reflect.String:
		v.SetString("text " + strconv.FormatUint(*n, 36))
	case v.Kind() == reflect.Bool:
		v.SetBool(*n%2 == 0)
	case v.CanUint():
		v.SetUint(*n << (*n % 40))
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanFloat():
		v.SetFloat(float64(*n))
	}
}

// nodeValues is a snapshot with a full node's part.
func nodeValues(seed uint64) rt.Snapshot {
	var s rt.Snapshot
	fill(reflect.ValueOf(&s.Node).Elem(), &seed)
	for _, table := range []any{&s.CPUs, &s.Nets, &s.Disks, &s.Mounts, &s.Fabrics, &s.RemoteFS} {
		fill(reflect.ValueOf(table).Elem(), &seed)
	}
	s.Nets[1].SpeedMbps.Set(-1)
	s.Node.GPUs, s.Node.GPUUsage, s.Node.GPUVRAMUsed, s.Node.GPUUtilized = rt.None[uint64](), rt.None[float64](), rt.None[uint64](), rt.None[uint64]()
	s.Node.ReadBoot, s.Boot = 0, 1000
	return s
}

func openNodeCache(t testing.TB, dir string) *NodeCache {
	t.Helper()
	l, err := OpenNodeCache(dir, "boot 1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Every field of the node's part arrives. Writing and loading allocate the list of fields of each row, and no texts that stay the same.
func TestNodeCacheCarriesEveryField(t *testing.T) {
	dir := t.TempDir()
	writer, reader := openNodeCache(t, dir), openNodeCache(t, dir)
	got := rt.Snapshot{Boot: 2000}
	if reader.load(&got, 0) {
		t.Fatal("values before any were written")
	}
	for seed := range uint64(50) {
		want := nodeValues(seed)
		if !writer.tryLock() {
			t.Fatal("there is no other tracker and the lock is taken")
		}
		if err := writer.write(&want); err != nil {
			t.Fatal(err)
		}
		if !reader.load(&got, 1000) {
			t.Fatal("nothing to load")
		}
		want.Node.ReadBoot, want.Boot = 1000, 2000
		if d := cmp.Diff(want, got, cacheOpts); d != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, d)
		}
	}
	give := nodeValues(1)
	rows := len(give.CPUs) + len(give.Nets) + len(give.Disks) + len(give.Mounts) + len(give.Fabrics) + len(give.RemoteFS)
	if n := testing.AllocsPerRun(20, func() {
		if err := writer.write(&give); err != nil || !reader.load(&got, 0) {
			t.Error(err)
		}
	}); n > float64(2*rows) {
		t.Errorf("writing and loading makes %v allocations for %d rows", n, rows)
	}
}

func TestNodeCacheOfOldAndForeignValues(t *testing.T) {
	dir := t.TempDir()
	l := openNodeCache(t, dir)
	s := nodeValues(3)
	if err := l.write(&s); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		boot, notBefore int64
		want            bool
	}{
		"fresh": {2000, 1000, true}, "stale": {2000, 1001, false}, "of the future, from before a reboot": {999, 0, false},
	} {
		got := rt.Snapshot{Boot: tt.boot}
		if ok := l.load(&got, tt.notBefore); ok != tt.want {
			t.Errorf("%s: loaded %v", name, ok)
		} else if !ok && (len(got.CPUs) > 0 || got.Node != rt.NodeReading{}) {
			t.Errorf("%s: something is there: %+v", name, got)
		}
	}
	other, err := OpenNodeCache(dir, "boot 2")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := (rt.Snapshot{Boot: 2000}); other.load(&got, 0) {
		t.Error("values of another boot are loaded")
	}
}

// A file with any changed byte is not used.
func TestNodeCacheOfDamagedValues(t *testing.T) {
	dir := t.TempDir()
	l := openNodeCache(t, dir)
	s := nodeValues(4)
	if err := l.write(&s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "values")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(good) + 1 {
		bad := slices.Clone(good)
		if i < len(good) {
			bad[i] ^= 0x41
		} else {
			bad = bad[:len(bad)/2]
			if err := os.Truncate(path, int64(len(bad))); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := (rt.Snapshot{Boot: 2000}); l.load(&got, 0) {
			t.Errorf("loaded although byte %d was changed", i)
		}
	}
}

func TestNodeCacheTrustsOnlyItsUser(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "values")
	for name, make := range map[string]func() error{
		"writable by others": func() error {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				return err
			}
			return os.Chmod(path, 0o666)
		},
		"a link":      func() error { return os.Symlink("/dev/null", path) },
		"a directory": func() error { return os.Mkdir(path, 0o700) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if l, err := OpenNodeCache(dir, ""); err == nil {
			t.Errorf("%s: opened", name)
			_ = l.Close()
		}
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := OpenNodeCache(filepath.Join(dir, "none"), ""); err == nil {
		t.Error("without a directory it is opened")
	}
}

// nodeSource counts how often the node is read; a network device counts microseconds.
func nodeSource(reads *int) Source {
	return source{"net", func(s *rt.Snapshot) error {
		*reads++
		v := rt.Some(uint64(s.Boot) / 1000)
		s.Nets = append(s.Nets, rt.NetReading{Name: "eth0", RxBytes: v, TxBytes: v})
		s.Node.NetRxBytes, s.Node.NetTxBytes = v, v
		return nil
	}}
}

// 64 trackers that began at other times read the node twice an interval at most, all
// together, and each of their rates is exact.
func TestNodeCacheOf64Trackers(t *testing.T) {
	const trackers, interval, rounds = 64, 10_000, 20
	dir := t.TempDir()
	var reads int
	var now int64 // milliseconds
	recorders := make([]*Recorder, trackers)
	last := make([]rt.Snapshot, trackers)
	for i := range recorders {
		r, err := New(Options{
			Interval: time.Second, Node: []Source{nodeSource(&reads)}, NodeCache: openNodeCache(t, dir),
			Clock: func() (int64, int64) { return now * 1e6, now * 1e6 },
		})
		if err != nil {
			t.Fatal(err)
		}
		recorders[i] = r
	}
	shared := 0
	for now = 1; now < rounds*interval; now++ {
		for i, r := range recorders {
			if (now+int64(i*i*37))%interval != 0 {
				continue
			}
			r.take(rt.ReasonTick)
			cur := r.snap
			cur.Nets = slices.Clone(cur.Nets)
			if cur.Node.ReadBoot != 0 {
				shared++
			}
			if last[i].Seq > 0 {
				rate := rt.Derive(&last[i], &cur, rt.ScopeNode).Network[0].RxBytesPerSec
				if v, ok := rate.Get(); !ok || v < 1e6-1 || v > 1e6+1 {
					t.Fatalf("tracker %d, snapshot %d: a rate of %v, want 1e6", i, cur.Seq, rate)
				}
			}
			last[i] = cur
		}
	}
	if most := trackers + 2*rounds; reads > most || reads+shared < trackers*(rounds-1) {
		t.Errorf("the node was read %d times (at most %d are right), and shared %d times", reads, most, shared)
	}
	t.Logf("%d readings of %d snapshots", reads, reads+shared)
}

// A tracker that hangs with the lock delays no other.
func TestNodeCacheOfOneThatHangs(t *testing.T) {
	dir := t.TempDir()
	hung := openNodeCache(t, dir)
	if !hung.tryLock() {
		t.Fatal("the lock is taken")
	}
	var reads int
	var now int64
	r, err := New(Options{
		Interval: time.Second, Node: []Source{nodeSource(&reads)}, NodeCache: openNodeCache(t, dir),
		Clock: func() (int64, int64) { now += 1e9; return now, now },
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.take(rt.ReasonTick)
	}
	if reads != 3 || r.snap.Node.ReadBoot != 0 || len(r.snap.Nets) != 1 {
		t.Errorf("%d readings, %+v", reads, r.snap.Nets)
	}
}

// cacheRounds is how often each process of TestNodeCacheOfProcesses reads the node.
const cacheRounds = 100

// cacheHelper is one of many processes that read a node: it does so for each byte that it receives,
// and answers with a byte.
func cacheHelper() {
	l, err := OpenNodeCache(os.Getenv("RT_LEASE_DIR"), "boot 1")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var reads int
	r, err := New(Options{Interval: time.Second, Node: []Source{nodeSource(&reads)}, NodeCache: l})
	if err != nil {
		os.Exit(1)
	}
	var out struct{ Reads, Shared, Bad int }
	for order := make([]byte, 1); ; {
		if _, err := os.Stdin.Read(order); err != nil {
			break
		}
		r.take(rt.ReasonTick)
		_, _ = os.Stdout.Write(order)
		rx, at := r.snap.Nets[0].RxBytes.Or(0), uint64(r.snap.Boot)/1000
		if boot := r.snap.Node.ReadBoot; boot != 0 {
			out.Shared++
			at = uint64(boot) / 1000
		}
		if rx != at || len(r.snap.Nets) != 1 {
			out.Bad++
		}
	}
	out.Reads = reads
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

func TestMain(m *testing.M) {
	if os.Getenv("RT_LEASE_DIR") != "" {
		cacheHelper()
		return
	}
	os.Exit(m.Run())
}

// Processes that read and write at the same time never load a part of a file.
func TestNodeCacheOfProcesses(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var orders []io.WriteCloser
	var outs []*bufio.Reader
	var cmds []*exec.Cmd
	for range 8 {
		cmd := exec.Command(self)
		cmd.Env = []string{"RT_LEASE_DIR=" + dir}
		cmd.Stderr = os.Stderr
		in, errIn := cmd.StdinPipe()
		out, errOut := cmd.StdoutPipe()
		if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		orders, outs, cmds = append(orders, in), append(outs, bufio.NewReader(out)), append(cmds, cmd)
	}
	for range cacheRounds {
		for _, in := range orders {
			if _, err := in.Write([]byte(".")); err != nil {
				t.Fatal(err)
			}
		}
		for _, out := range outs {
			if _, err := out.ReadByte(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, in := range orders {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
	var reads, shared int
	for i, cmd := range cmds {
		var got struct{ Reads, Shared, Bad int }
		if err := json.NewDecoder(outs[i]).Decode(&got); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if got.Bad > 0 || got.Reads+got.Shared != cacheRounds {
			t.Errorf("process %d: %+v", i, got)
		}
		reads, shared = reads+got.Reads, shared+got.Shared
	}
	if shared == 0 {
		t.Errorf("%d readings, none shared", reads)
	}
	t.Logf("%d readings, %d shared", reads, shared)
}

func FuzzNodeCache(f *testing.F) {
	s := nodeValues(1)
	c := coder{write: true}
	c.node(&s)
	f.Add(c.b)
	if len(c.b) < 500 {
		f.Fatalf("a seed of %d bytes", len(c.b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var got rt.Snapshot
		c := coder{b: slices.Clone(b)}
		c.node(&got)
		if c.bad || len(c.b) > 0 {
			return
		}
		again, back := coder{write: true}, rt.Snapshot{}
		again.node(&got)
		c = coder{b: again.b}
		c.node(&back)
		if d := cmp.Diff(got, back, cacheOpts); d != "" || c.bad {
			t.Errorf("-first +again:\n%s", d)
		}
	})
}
