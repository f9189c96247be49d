package tracker

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWaiter(t *testing.T) {
	w, err := NewWaiter()
	if err != nil {
		t.Fatal(err)
	}
	w.Wait(time.Now().Add(-time.Second)) // it is over
	until := time.Now().Add(3 * time.Millisecond)
	w.Wait(until)
	if time.Now().Before(until) {
		t.Error("the wait ended early")
	}
	w.Wake()
	w.Wake()
	w.Wait(time.Now().Add(time.Hour)) // both calls end this wait
	if _, err := unix.Read(int(w.fds[0].Fd), make([]byte, len(w.count))); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("a call of Wake is left for another wait: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Wait(time.Now().Add(time.Hour))
	}()
	w.Wake()
	<-done
	if n := testing.AllocsPerRun(100, func() { w.Wake(); w.Wait(until) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
