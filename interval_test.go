package rt

import (
	"errors"
	"iter"
	"reflect"
	"testing"
)

// reusing gives snapshots in one Snapshot, as a reader of the spool does, and then
// the error.
func reusing(list []*Snapshot, err error) iter.Seq2[*Snapshot, error] {
	return func(yield func(*Snapshot, error) bool) {
		var one Snapshot
		for _, s := range list {
			one.CopyFrom(s)
			if !yield(&one, nil) {
				return
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func TestIntervalsAddUpOverAGap(t *testing.T) {
	list := []*Snapshot{job(1, JobPresent, 1e6, 1e6, 0), job(2, JobPresent, 0, 0, 0), job(5, JobPresent, 9e6, 8e6, 1e6), job(6, JobPresent, 9e6, 9e6, 1e6)}
	list[1].Job = JobReading{Phase: JobPresent}
	for i, s := range list {
		s.Nets = []NetReading{{Name: "a", RxBytes: Some(uint64(100 * i))}}
	}
	broken := errors.New("damaged")
	var total, intervals uint64
	var got error
	for i, err := range Intervals(reusing(list, broken)) {
		if got = err; err != nil {
			continue
		}
		intervals++
		s := Derive(i.Prev, i.Cur, ScopeJob)
		total += s.Scalars.UserMillis.Or(0)
		wantF(t, "the rate of an interface", s.Network[0].RxBytesPerSec, 100/s.Scalars.Seconds)
	}
	if intervals != 3 || total != 8000 || !errors.Is(got, broken) {
		t.Errorf("%d intervals with %d ms, then %v", intervals, total, got)
	}
	for range Intervals(reusing(list, nil)) {
		break
	}
}

// Every list of a Snapshot is copied: one that is forgotten here is shared.
func TestCopyFromSharesNoList(t *testing.T) {
	var src, dst Snapshot
	v := reflect.ValueOf(&src).Elem()
	lists := 0
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice {
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			lists++
		}
	}
	dst.CopyFrom(&src)
	d := reflect.ValueOf(&dst).Elem()
	for i := range d.NumField() {
		if f := d.Field(i); f.Kind() == reflect.Slice && (f.Len() != 1 || f.Pointer() == v.Field(i).Pointer()) {
			t.Errorf("%s: %d entries, shared or lost", d.Type().Field(i).Name, f.Len())
		}
	}
	if lists != 12 {
		t.Errorf("%d lists", lists)
	}
	if n := testing.AllocsPerRun(100, func() { dst.CopyFrom(&src) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
