package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/objects"
)

// failing is an object store that fails to read the objects of some runs.
type failing struct {
	*objects.Dir
	fails map[string]int // how often the object of a run cannot be read, first
	open  bool           // it fails at once, not in the middle
	gets  int
}

var errLost = errors.New("the connection is lost")

func (f *failing) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	f.gets++
	id, _, _ := strings.Cut(name, "/")
	if f.fails[id] == 0 {
		return f.Dir.Get(ctx, name)
	}
	f.fails[id]--
	if f.open {
		return nil, errLost
	}
	half := io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errLost))
	return io.NopCloser(half), nil
}

// An object that cannot be read is read again. If that does not help it is counted, and is no damage; the
// others are checked. The check ends if nothing can be read.
func TestObjectsThatCannotBeRead(t *testing.T) {
	whole := newStore(t)
	for n := range 30 {
		if err := whole.Runs.Create(t.Context(), site.StoredRun{ID: runID(n)}); err != nil {
			t.Fatal(err)
		}
		run, text := recordOf(t, n, "alice")
		whole.put(t, site.Object{RunID: runID(n), Name: site.RecordName, Class: site.ClassRecord}, text, true, &run)
	}
	always := 1000
	all := map[string]int{}
	for n := range 100 {
		all[runID(n)] = always
	}
	for name, tc := range map[string]struct {
		fails   map[string]int
		unread  string
		runs    int
		isEnded bool
	}{
		"once":      {map[string]int{runID(1): 1, runID(2): readTries - 1}, "", 30, false},
		"always":    {map[string]int{runID(1): always, runID(29): always}, runID(1) + " " + runID(29), 30, false},
		"all":       {all, "", 0, true},
		"a few":     {map[string]int{runID(0): always, runID(1): always, runID(2): always}, runID(0) + " " + runID(1) + " " + runID(2), 30, false},
		"no object": {nil, "", 30, false},
	} {
		for _, open := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := whole.copied(t)
				f := &failing{Dir: s.Dir, fails: maps.Clone(tc.fails), open: open}
				var unread, damage []string
				v := Verifier{
					Registry: s.Registry, Objects: f, RunOf: runOf,
					Damaged: func(d Damage) { damage = append(damage, fmt.Sprint(d)) },
					Unread: func(run, object string, err error) {
						if object != site.RecordName || !errors.Is(err, errLost) {
							t.Errorf("%s: %v", object, err)
						}
						unread = append(unread, run)
					},
				}
				totals, err := v.Verify(t.Context())
				isAsCounted := totals.Unchecked == len(unread) && totals.Damaged == 0 && totals.Runs >= tc.runs
				if errors.Is(err, errLost) != tc.isEnded || (err == nil) == tc.isEnded || len(damage) > 0 || !isAsCounted {
					t.Errorf("%s: %+v %q %v", name, totals, damage, err)
				}
				if got := strings.Join(unread, " "); !tc.isEnded && got != tc.unread {
					t.Errorf("%s: not checked: %q", name, got)
				}
				if tc.isEnded && f.gets != readTries*(maxUnread+1) {
					t.Errorf("%s: %d objects were opened", name, f.gets)
				}
			})
		}
	}
}
