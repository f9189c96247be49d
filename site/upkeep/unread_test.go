package upkeep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// simple is a registry of runs with one object each, and an object store that fails.
type simple struct {
	Registry // nil
	runs     int
	fails    map[string]int // how often the object of a run cannot be read, first
	open     bool           // it fails at once, not in the middle
	gets     int
}

var errLost = errors.New("the connection is lost")

func (s *simple) Check(context.Context) ([]string, error) { return nil, nil }

func (s *simple) RunIDs(_ context.Context, after string, _ int) (ids []string, err error) {
	for n := range s.runs {
		if runID(n) > after {
			ids = append(ids, runID(n))
		}
	}
	return ids, nil
}

func (s *simple) Run(_ context.Context, id string) (site.Run, error) {
	return site.Run{ID: id, Record: &rt.Run{}}, nil
}

func (s *simple) Objects(_ context.Context, id string) ([]site.Object, error) {
	content := "the record of " + id
	sum := sha256.Sum256([]byte(content))
	return []site.Object{{
		RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), Stored: id + "/1",
	}}, nil
}

func (s *simple) Get(_ context.Context, name string) (io.ReadCloser, error) {
	s.gets++
	id, _, _ := strings.Cut(name, "/")
	content := "the record of " + id
	if s.fails[id] == 0 {
		return io.NopCloser(strings.NewReader(content)), nil
	}
	s.fails[id]--
	if s.open {
		return nil, errLost
	}
	half := io.MultiReader(strings.NewReader(content[:5]), iotest.ErrReader(errLost))
	return io.NopCloser(half), nil
}

func (s *simple) List(context.Context, string) iter.Seq2[site.Stored, error] {
	return func(func(site.Stored, error) bool) {}
}

// An object that cannot be read is read again. If that does not help it is counted, and is no damage; the
// others are checked. The check ends if nothing can be read.
func TestObjectsThatCannotBeRead(t *testing.T) {
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
				s := &simple{runs: 30, fails: map[string]int{}, open: open}
				for id, n := range tc.fails {
					s.fails[id] = n
				}
				var unread, damage []string
				v := Verifier{
					Registry: s, Objects: s, RunOf: func(r io.Reader) (run rt.Run, err error) {
						_, err = new(bytes.Buffer).ReadFrom(r)
						return run, err
					},
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
				if tc.isEnded && s.gets != readTries*(maxUnread+1) {
					t.Errorf("%s: %d objects were opened", name, s.gets)
				}
			})
		}
	}
}
