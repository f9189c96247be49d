package tracker

import (
	"testing"
	"time"
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
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Wait(time.Now().Add(time.Hour))
	}()
	select {
	case <-done:
		t.Fatal("a call of Wake ended two waits")
	case <-time.After(time.Millisecond):
	}
	w.Wake()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("Wake does not end the wait")
	}
	if n := testing.AllocsPerRun(100, func() { w.Wake(); w.Wait(until) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
