//go:build e2e

package delivery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
)

// newRandom returns a generator with the seed of the test.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(random.Seed(t), 1))
}

// parts is the number of concurrent parts of a test that waits more than it computes: for
// the pauses between requests, and for processes.
const parts = 6

// inParts runs the parts of a test at the same time, each with its own bench.
func inParts(t *testing.T, keys []string, part func(t *testing.T, b *bench, n int)) {
	t.Helper()
	from, first := random.Seed(t), newSite(t)
	t.Run("parts", func(t *testing.T) {
		for n := range parts {
			t.Run(strconv.Itoa(n), func(t *testing.T) {
				t.Parallel()
				part(t, newBench(t, first.another(t), rand.New(rand.NewPCG(from, uint64(n+1))), keys...), n)
			})
		}
	})
}

// bench is a spool, a receiver and the proxy between them.
type bench struct {
	*site
	receiver *receiver
	proxy    *proxy
	random   *rand.Rand
	sent     []spooled
}

// newBench makes one in memory: a killed process loses nothing that is in the page cache,
// so no disk is needed.
func newBench(t *testing.T, s *site, random *rand.Rand, keys ...string) *bench {
	t.Helper()
	b := &bench{site: s, random: random}
	inMemory(t, s)
	b.receiver = serve(t, b.site)
	b.proxy = newProxy(t, b.receiver, random)
	b.configure(t, b.proxy.URL, keys...)
	return b
}

// drain runs one drain. A kill comes at the drain's n-th change of a file (0: never) or at the given exchange. The
// results are whether drain was killed, and how many changes it made.
func (b *bench) drain(t *testing.T, change, exchange int, late bool, flags ...string) (killed bool, changes int) {
	t.Helper()
	counter := b.path("changes")
	if err := os.WriteFile(counter, make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := b.rtSpool(append([]string{"drain"}, flags...)...)
	cmd.Env = append(cmd.Env, "LD_PRELOAD="+b.preload, "KILL_FILE="+counter, fmt.Sprintf("KILL_AT=%d", change))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := b.proxy.aim(cmd, exchange, late); err != nil {
		t.Fatal(err)
	}
	killed = ended(t, cmd, &said)
	n, err := os.ReadFile(counter)
	if err != nil {
		t.Fatal(err)
	}
	return killed, int(binary.NativeEndian.Uint64(n))
}

// ended waits for a drain. It ends by SIGKILL, with 0, or with 75 if the receiver failed.
func ended(t *testing.T, cmd *exec.Cmd, said *bytes.Buffer) (killed bool) {
	t.Helper()
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			return true
		}
		if exit.ExitCode() == 75 {
			return false
		}
	}
	if err != nil {
		t.Fatalf("drain: %v\n%s", err, said)
	}
	return false
}

// putAside moves the files of delivered runs out of the spool: otherwise every drain would
// read them again.
func (b *bench) putAside(t *testing.T) {
	t.Helper()
	for i := range b.sent {
		s := &b.sent[i]
		if filepath.Dir(s.path) != b.path("spool") || readLedger(t, s.path).state != rt.StateDelivered {
			continue
		}
		to := filepath.Join(b.path("delivered"), filepath.Base(s.path))
		if err := os.Rename(s.path, to); err != nil {
			t.Fatal(err)
		}
		s.path = to
	}
}

// leftByFaults are the notes about faults of earlier drains.
var leftByFaults = []string{"a registration got no answer and was sent again", "finish unconfirmed", "because the receiver no longer knows run"}

// whole delivers the rest and checks that nothing is left. The drain may print only notes about
// earlier faults: registrations without an answer, finishes that were not confirmed, and runs that
// the receiver has forgotten.
func (b *bench) whole(t *testing.T) {
	t.Helper()
	b.proxy.faults = 0
	out, err := b.rtSpool("drain").CombinedOutput()
	if err != nil {
		t.Errorf("the drain that nothing disturbs: %v", err)
	}
	for line := range bytes.Lines(out) {
		isNote := func(text string) bool { return bytes.Contains(line, []byte(text)) }
		if !slices.ContainsFunc(leftByFaults, isNote) {
			t.Errorf("the undisturbed drain prints %s", line)
		}
	}
	if len(b.proxy.changed) > 0 {
		t.Errorf("sent again with other bytes: %q", b.proxy.changed)
	}
	got := arrived(t, b.receiver, b.proxy.strict.Forgotten(), b.sent)
	total := 0
	for _, n := range b.proxy.failed {
		total += n
	}
	t.Logf("%d runs arrived after %d faults: %d with an unconfirmed finish, %d unused registrations, %d forgotten runs",
		len(b.sent), total, got.unconfirmed, got.unused, got.forgotten)
}

// add puts another run into the spool.
func (b *bench) add(t *testing.T, job uint64, snapshots int) {
	t.Helper()
	b.sent = append(b.sent, put(t, b.path("spool"), job, snapshots, b.random))
}

// TestDrainKilledAtEveryStep kills a drain at each change of a file and at each exchange, before and after the
// receiver gets the request.
func TestDrainKilledAtEveryStep(t *testing.T) {
	const exchanges = 2 * (1 + 3 + 1) // for two runs: register, three batches, finish
	var byChange, byExchange atomic.Int64
	most := 0
	inParts(t, []string{"batch_rows = 4", `sacct = "off"`}, func(t *testing.T, b *bench, part int) {
		b.add(t, 1, 10)
		b.add(t, 2, 10)
		killed, steps := b.drain(t, 0, 0, false)
		if killed || steps < 50 {
			t.Fatalf("a drain of two runs made %d changes, killed: %v", steps, killed)
		}
		if part == 0 {
			most = steps
		}
		b.add(t, 3, 10)
		die := func(change, exchange int, late bool, deaths *atomic.Int64) {
			b.putAside(t)
			b.add(t, uint64(len(b.sent)+1), 10)
			if killed, _ := b.drain(t, change, exchange, late); killed {
				deaths.Add(1)
			}
		}
		for n := 1 + part; n <= steps; n += parts {
			die(n, 0, false, &byChange)
		}
		for n := 1 + part; n <= exchanges; n += parts {
			die(0, n, false, &byExchange)
			die(0, n, true, &byExchange)
		}
		b.whole(t)
	})
	t.Logf("%d changes and %d exchanges of two runs: killed at %d changes and %d exchanges", most, exchanges, byChange.Load(), byExchange.Load())
	if byChange.Load() < int64(most)/2 || byExchange.Load() < exchanges/2 {
		t.Error("too few drains were killed")
	}
}

// TestDrainKilledAtRandom kills drains and the receiver at random times while the network fails at random, and while
// some of the runs are still tracked.
func TestDrainKilledAtRandom(t *testing.T) {
	kills := envNumber(t, "RT_KILLS", 100)
	var deaths, drains atomic.Int64
	inParts(t, []string{"batch_rows = 8", "concurrency = 8", `sacct = "off"`}, func(t *testing.T, b *bench, _ int) {
		killed, tried := b.killAtRandom(t, (kills+parts-1)/parts)
		deaths.Add(int64(killed))
		drains.Add(int64(tried))
		b.whole(t)
	})
	t.Logf("%d of %d drains were killed", deaths.Load(), drains.Load())
	if deaths.Load() < int64(kills) {
		t.Errorf("only %d drains were killed", deaths.Load())
	}
}

// killAtRandom kills the given number of drains. After that all runs have ended, and may be
// anywhere on their way.
func (b *bench) killAtRandom(t *testing.T, kills int) (deaths, drains int) {
	t.Helper()
	jobs := uint64(0)
	add := func(snapshots int) {
		jobs++
		b.add(t, jobs, snapshots)
	}
	for n := range 16 {
		add(min(n, b.random.IntN(60))) // at first no snapshot, then one, then one interval
	}
	live := make([]*tracked, 4)
	b.proxy.faults = 0.1
	for ; deaths < kills && drains < 3*kills; drains++ {
		at := b.random.IntN(len(live))
		switch r := live[at]; {
		case r == nil:
			jobs++
			live[at] = track(t, b.path("spool"), jobs)
		case b.random.IntN(8) == 0:
			b.sent, live[at] = append(b.sent, r.end(t, b.random.IntN(2) == 0)), nil
		default:
			r.read(t, b.random.IntN(6), b.random)
		}
		if b.random.IntN(10) == 0 {
			b.receiver.stop(t, syscall.SIGKILL)
			b.receiver.start(t)
		}
		b.putAside(t)
		if b.drainOnce(t) {
			deaths++
			continue
		}
		for range 4 { // delivered runs make room for more
			add(b.random.IntN(60))
		}
	}
	for _, r := range live {
		if r != nil {
			b.sent = append(b.sent, r.end(t, false))
		}
	}
	return deaths, drains
}

// drainOnce runs a drain, and kills it at a random point or not at all.
func (b *bench) drainOnce(t *testing.T) (killed bool) {
	t.Helper()
	change, exchange := 0, 0
	if b.random.IntN(3) == 0 {
		exchange = 1 + b.random.IntN(12)
	} else {
		change = 1 + b.random.IntN(200)
	}
	var flags []string
	if b.random.IntN(2) == 0 {
		flags = append(flags, "--live")
	}
	killed, _ = b.drain(t, change, exchange, b.random.IntN(2) == 0, flags...)
	return killed
}
