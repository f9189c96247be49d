package poll

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wait waits in a goroutine and returns the channel of its result.
func wait(fds []unix.PollFd) <-chan error {
	done := make(chan error, 1)
	go func() {
		for {
			n, err := Wait(fds, Forever)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err == nil && n != 1 {
				err = errors.New("no descriptor is ready")
			}
			done <- err
			return
		}
	}()
	return done
}

// The waiting threads leave the processor to the other goroutines and do not delay the garbage collector.
func TestWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var results [8]<-chan error
	var writers [len(results)]*os.File
	for i := range results {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		writers[i] = w
		results[i] = wait([]unix.PollFd{{Fd: -1, Events: unix.POLLIN}, {Fd: int32(r.Fd()), Events: unix.POLLIN}})
	}
	for range 3 {
		runtime.Gosched()
		runtime.GC()
	}
	for i, w := range writers {
		select {
		case err := <-results[i]:
			t.Fatalf("wait %d ended early: %v", i, err)
		default:
		}
		if _, err := w.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if err := <-results[i]; err != nil {
			t.Error(err)
		}
	}
}

func TestTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Microsecond, 2 * time.Millisecond} {
		began := time.Now()
		n, err := Wait(nil, timeout)
		isInterrupted := errors.Is(err, unix.EINTR)
		if n != 0 || (err != nil && !isInterrupted) {
			t.Errorf("after %s: %d, %v", timeout, n, err)
		}
		if !isInterrupted && time.Since(began) < timeout {
			t.Errorf("the wait of %s ended early", timeout)
		}
	}
}

func TestWaitAllocatesNothing(t *testing.T) {
	fds := []unix.PollFd{{Fd: -1}}
	if n := testing.AllocsPerRun(100, func() { _, _ = Wait(fds, time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
