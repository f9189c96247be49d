package site

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

func TestCheckRecordRun(t *testing.T) {
	with := func(change func(r *rt.Run)) *rt.Run {
		r := &rt.Run{}
		change(r)
		return r
	}
	for want, r := range map[string]*rt.Run{
		"": with(func(r *rt.Run) {
			r.JobID, r.Step, r.User = rt.Some[uint64](MaxID), "0+1.batch_a-b", strings.Repeat("x", 60<<10)
		}),
		"job id":                with(func(r *rt.Run) { r.JobID = rt.Some[uint64](MaxID + 1) }),
		"job array":             with(func(r *rt.Run) { r.ArrayJobID = rt.Some[uint64](math.MaxUint64) }),
		"attempt":               with(func(r *rt.Run) { r.Attempt = math.MaxUint64 }),
		"no JSON":               with(func(r *rt.Run) { r.Start = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"more than 65536":       with(func(r *rt.Run) { r.User = strings.Repeat("x", 64<<10) }),
		"step \"$(id)\"":        with(func(r *rt.Run) { r.JobID, r.Step = rt.Some[uint64](12), "$(id)" }),
		"step \"a\\nb\"":        with(func(r *rt.Run) { r.Step = "a\nb" }),
		"step \"\\xffx":         with(func(r *rt.Run) { r.Step = "\xff" + strings.Repeat("x", 1<<10) }),
		"heterogeneous job 100": with(func(r *rt.Run) { r.HetJobID = rt.Some[uint64](MaxID + 1) }),
	} {
		err := CheckRecordRun(r)
		isRight := err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want)
		if !isRight {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// Two objects with the same bytes have different names in the object store: one can be deleted while the other is needed.
func TestStoredNamesAreNew(t *testing.T) {
	o := Object{RunID: "20260301t120000-a", SHA256: "00ff"}
	one, other := o.NewStoredName(), o.NewStoredName()
	isOfRun := strings.HasPrefix(one, o.RunID+"/"+o.SHA256+"-") && strings.ToLower(one) == one
	if one == other || !isOfRun {
		t.Errorf("%s, %s", one, other)
	}
}
