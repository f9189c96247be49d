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
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// newRandom returns a generator whose seed RT_SEED may set, and prints it.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RT_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("RT_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("RT_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// bench is a spool, a receiver and the proxy between them.
type bench struct {
	*site
	receiver *receiver
	proxy    *proxy
}

func newBench(t *testing.T, random *rand.Rand, keys ...string) *bench {
	t.Helper()
	b := &bench{site: newSite(t)}
	b.receiver = serve(t, b.site)
	b.proxy = newProxy(t, b.receiver, random)
	b.configure(t, b.proxy.URL, keys...)
	return b
}

// drain runs one drain. It dies at its n-th change of a file (0: never) or at the
// given exchange; the result says whether it did, and how many changes it made.
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

// ended waits for a drain. Beside SIGKILL it may end with 0, or with 75 where the
// receiver failed it.
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

// putAside moves the files of delivered runs out of the spool: every drain would look
// at them again.
func (b *bench) putAside(t *testing.T, sent []spooled) {
	t.Helper()
	for i := range sent {
		s := &sent[i]
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

// whole delivers what is left and holds that it is done, without a word but on
// registrations whose answers killed drains have missed.
func (b *bench) whole(t *testing.T) {
	t.Helper()
	b.proxy.faults = 0
	out, err := b.rtSpool("drain").CombinedOutput()
	if err != nil {
		t.Errorf("the drain that nothing disturbs: %v", err)
	}
	for line := range bytes.Lines(out) {
		if !bytes.Contains(line, []byte("a registration got no answer and was sent again")) {
			t.Errorf("the drain that nothing disturbs says %s", line)
		}
	}
	if len(b.proxy.changed) > 0 {
		t.Errorf("sent again with other bytes: %q", b.proxy.changed)
	}
}

// TestDrainKilledAtEveryStep kills a drain at each change that it makes of a file,
// one after the other, and at each exchange with the receiver, before and after
// the receiver has heard of it.
func TestDrainKilledAtEveryStep(t *testing.T) {
	random := newRandom(t)
	b := newBench(t, random, "batch_rows = 4", `sacct = "off"`)
	var sent []spooled
	add := func() {
		job := uint64(len(sent) + 1)
		sent = append(sent, put(t, b.path("spool"), job, 10, random))
	}
	add()
	add()
	killed, steps := b.drain(t, 0, 0, false)
	exchanges := 2 * (1 + 3 + 1) // of two runs: register, three batches, finish
	if killed || steps < 50 {
		t.Fatalf("a drain of two runs made %d changes, killed: %v", steps, killed)
	}
	deaths := 0
	die := func(change, exchange int, late bool) {
		b.putAside(t, sent)
		add()
		killed, _ := b.drain(t, change, exchange, late)
		if killed {
			deaths++
		}
	}
	for n := 1; n <= steps; n++ {
		die(n, 0, false)
	}
	byChange := deaths
	for n := 1; n <= exchanges; n++ {
		die(0, n, false)
		die(0, n, true)
	}
	t.Logf("%d changes and %d exchanges of two runs: killed at %d changes and %d exchanges", steps, exchanges, byChange, deaths-byChange)
	if byChange < steps/2 || deaths-byChange < exchanges/2 {
		t.Error("too few drains were killed")
	}
	b.whole(t)
	t.Logf("%d runs arrived, %d registrations beside", len(sent), arrived(t, b.receiver, sent))
}

// TestDrainKilledAtRandom kills drains and the receiver at random while the
// network between them fails at random too, and some of the runs are still tracked.
func TestDrainKilledAtRandom(t *testing.T) {
	const runs, kills = 32, 300
	random := newRandom(t)
	b := newBench(t, random, "batch_rows = 8", "concurrency = 8", `sacct = "off"`)
	var sent []spooled
	jobs := uint64(0)
	add := func(snapshots int) {
		jobs++
		sent = append(sent, put(t, b.path("spool"), jobs, snapshots, random))
	}
	for n := range runs {
		add(min(n, random.IntN(60))) // at first no snapshot, one, one interval
	}
	live := make([]*tracked, 4)
	b.proxy.faults = 0.1
	deaths, drains := 0, 0
	for ; deaths < kills && drains < 3*kills; drains++ {
		at := random.IntN(len(live))
		switch r := live[at]; {
		case r == nil:
			jobs++
			live[at] = track(t, b.path("spool"), jobs)
		case random.IntN(8) == 0:
			sent, live[at] = append(sent, r.end(t, random.IntN(2) == 0)), nil
		default:
			r.read(t, random.IntN(6), random)
		}
		if random.IntN(10) == 0 {
			b.receiver.stop(t, syscall.SIGKILL)
			b.receiver.start(t)
		}
		b.putAside(t, sent)
		if b.drainOnce(t, random) {
			deaths++
			continue
		}
		for range 4 { // what was delivered makes room for more
			add(random.IntN(60))
		}
	}
	t.Logf("%d of %d drains were killed, over %d runs", deaths, drains, len(sent))
	if deaths < kills {
		t.Errorf("only %d drains were killed", deaths)
	}
	for _, r := range live {
		if r != nil {
			sent = append(sent, r.end(t, false))
		}
	}
	b.whole(t)
	t.Logf("%d runs arrived, %d registrations beside", len(sent), arrived(t, b.receiver, sent))
}

// drainOnce kills a drain somewhere, or not.
func (b *bench) drainOnce(t *testing.T, random *rand.Rand) (killed bool) {
	t.Helper()
	change, exchange := 0, 0
	if random.IntN(3) == 0 {
		exchange = 1 + random.IntN(12)
	} else {
		change = 1 + random.IntN(200)
	}
	var flags []string
	if random.IntN(2) == 0 {
		flags = append(flags, "--live")
	}
	killed, _ = b.drain(t, change, exchange, random.IntN(2) == 0, flags...)
	return killed
}
