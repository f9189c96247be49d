package gpu

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
)

// script is a driver with scripted answers.
type script struct {
	calls  atomic.Int32
	answer func(call int, r *reading)
	closed atomic.Bool
}

func (d *script) vendor() string  { return "scripted" }
func (d *script) close()          { d.closed.Store(true) }
func (d *script) read(r *reading) { d.answer(int(d.calls.Add(1)), r) }

// with returns a source that has these drivers alone.
func with(drivers ...driver) *Source {
	s := &Source{nvidia: true, amd: true, maxWait: maxWait}
	for _, d := range drivers {
		s.drivers = append(s.drivers, newWorker(d))
	}
	return s
}

// device is a device with the number of the call as its utilization.
func device(call int) rt.GPUReading {
	return rt.GPUReading{UUID: "u", Name: "n", Type: "GPU", VRAMTotal: rt.Some[uint64](9),
		Utilization: rt.Some(float64(call)), VRAMUsed: rt.Some[uint64](1), Temperature: rt.Some[uint64](1),
		Power: rt.Some(1.0), Frequency: rt.Some[uint64](1)}
}

func add(call int, r *reading) { r.devices = append(r.devices, device(call)) }

// A driver that hangs loses its values, not the sample. The first reading ends after 100 ms, and
// the next ones do not wait. The driver is not called again until it returns, and then its values
// are present again.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := &script{answer: func(call int, r *reading) {
			if call == 2 {
				<-release
			}
			add(call, r)
		}}
		sound := &script{answer: add}
		src := with(d, sound)
		var s rt.Snapshot
		if err := src.Read(&s); err != nil {
			t.Fatal(err)
		}
		wantSums(t, &s.Node, rt.Some(0.02), rt.Some[uint64](2), rt.Some[uint64](2))
		for _, wait := range []time.Duration{maxWait, 0, 0} {
			begun := time.Now()
			s.Node = rt.NodeReading{}
			err := src.Read(&s)
			if took := time.Since(begun); took != wait {
				t.Errorf("the reading took %s", took)
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
			if len(s.GPUs) != 2 || s.GPUs[0].UUID != "u" || s.GPUs[0].VRAMTotal.Or(0) != 9 {
				t.Fatalf("the devices that are known: %+v", s.GPUs)
			}
			if g := s.GPUs[0]; g.Utilization.Valid() || g.VRAMUsed.Valid() || g.Temperature.Valid() || g.Power.Valid() || g.Frequency.Valid() {
				t.Errorf("values of a driver that hangs: %+v", g)
			}
			if !s.GPUs[1].Utilization.Valid() {
				t.Errorf("the other driver's values: %+v", s.GPUs[1])
			}
			wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
			time.Sleep(10 * time.Second)
		}
		if n := d.calls.Load(); n != 2 {
			t.Errorf("the driver was called %d times", n)
		}
		close(release)
		synctest.Wait()
		if err := src.Read(&s); err != nil || s.GPUs[0].Utilization.Or(0) != 3 {
			t.Errorf("after the hang: %v, %+v", err, s.GPUs)
		}
		if err := src.Close(); err != nil || !d.closed.Load() {
			t.Errorf("%v, closed %v", err, d.closed.Load())
		}
	})
}

// A reading waits for a driver that is known to be slow, and has its values of now.
func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := with(&script{answer: func(call int, r *reading) {
			time.Sleep(3 * maxWait)
			add(call, r)
		}})
		defer src.Close()
		var s rt.Snapshot
		for call := range 4 {
			err := src.Read(&s)
			if call == 0 {
				if err != nil || len(s.GPUs) != 0 {
					t.Errorf("the driver wakes up, and was read: %v, %+v", err, s.GPUs)
				}
				wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
			} else if err != nil || s.GPUs[0].Utilization.Or(0) != float64(call+1) {
				t.Errorf("reading %d: %v, %+v", call, err, s.GPUs)
			}
			time.Sleep(time.Second)
		}
	})
}

// What took seconds is not handed out: it is of another time.
func TestTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := with(&script{answer: func(call int, r *reading) {
			time.Sleep(2 * maxAge)
			add(call, r)
		}})
		defer func() {
			src.Close()
			time.Sleep(2 * maxAge) // the goroutine ends
		}()
		var s rt.Snapshot
		for i := range 3 {
			err := src.Read(&s)
			if i > 0 && !errors.Is(err, os.ErrDeadlineExceeded) || len(s.GPUs) != 0 && s.GPUs[0].Utilization.Valid() {
				t.Errorf("reading %d: %v, %+v", i, err, s.GPUs)
			}
			time.Sleep(3 * maxAge)
		}
	})
}

// Close returns though a driver hangs.
func TestCloseOfAHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := &script{answer: func(int, *reading) { <-release }}
		src := with(d)
		var s rt.Snapshot
		for i := range 12 {
			if err := src.Read(&s); errors.Is(err, os.ErrDeadlineExceeded) != (i > 10) && i != 10 {
				t.Errorf("after %d s of silence: %v", i, err)
			}
			time.Sleep(time.Second)
		}
		begun := time.Now()
		if err := src.Close(); err != nil || time.Since(begun) != maxWait || d.closed.Load() {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		close(release)
		synctest.Wait()
		if !d.closed.Load() {
			t.Error("the driver was never closed")
		}
	})
}

func TestPanic(t *testing.T) {
	src := with(&script{answer: func(int, *reading) { panic("of the binding") }}, &script{answer: add})
	src.maxWait = ample
	defer src.Close()
	var s rt.Snapshot
	for range 2 {
		if err := src.Read(&s); err == nil || len(s.GPUs) != 1 || s.Node.GPUUsage.Valid() {
			t.Errorf("%v, %+v, %v", err, s.GPUs, s.Node.GPUUsage)
		}
	}
}
