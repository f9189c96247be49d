package powerapi

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// The follower reports the new readings of each job, and the node once.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	begin := func(job uint64) *spool.Writer {
		run := poweredRun()
		run.JobID.Set(job)
		w, err := spool.Create(dir, run, rt.Host{}, spool.Options{CommitRows: 1})
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	var got []string
	f := &follower{FollowOptions: FollowOptions{Dir: dir, Kinds: []string{"power"}, IdleWatts: 100}, putReport: func(r Report) error {
		p := r.(*PowerReport)
		got = append(got, fmt.Sprintf("%s %d %g", p.Target, p.Time.Unix()-1_700_000_000, p.Power))
		return nil
	}}
	expect := func(want ...string) {
		t.Helper()
		if err := f.poll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
		got = nil
	}
	s := poweredSnapshots()
	put := func(w *spool.Writer, from, to int) {
		t.Helper()
		for i := from; i <= to; i++ {
			if err := w.Put(&s[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	one := begin(1)
	put(one, 0, 2)
	expect() // it was there before
	put(one, 3, 3)
	two := begin(2)
	put(two, 0, 1)
	expect("all 3 200", "lab:1 3 50", "lab:2 1 50")
	expect()
	put(one, 4, 4)
	if err := one.End(poweredRun()); err != nil {
		t.Fatal(err)
	}
	expect("all 4 200", "lab:1 4 50")
	put(two, 2, 2)
	expect("all 2 200", "lab:2 2 50")
	if err := two.End(poweredRun()); err != nil {
		t.Fatal(err)
	}
	expect()
	if len(f.runs) != 0 || f.node != "" {
		t.Errorf("%d runs are followed still", len(f.runs))
	}
}

// The file gets the readings that come after the first poll.
func TestFollowToFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		w, err := spool.Create(dir, poweredRun(), rt.Host{}, spool.Options{CommitRows: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		s := poweredSnapshots()
		ctx, cancel := context.WithCancel(t.Context())
		name := filepath.Join(t.TempDir(), "reports.json")
		logged := writerFunc(func(b []byte) (int, error) { t.Errorf("%s", b); return len(b), nil })
		o := FollowOptions{Dir: dir, Kinds: []string{"hwpc", "procfs"}, Every: time.Second, Log: log.New(logged, "", 0)}
		var done sync.WaitGroup
		done.Go(func() {
			if err := FollowToFile(ctx, o, name); err != nil {
				t.Error(err)
			}
		})
		for i := range 3 {
			if err := w.Put(&s[i]); err != nil {
				t.Fatal(err)
			}
			time.Sleep(o.Every)
			synctest.Wait()
		}
		cancel()
		done.Wait()
		text, err := os.ReadFile(name)
		if err != nil || bytes.Count(text, []byte("\n")) < 3 {
			t.Errorf("%v, %s", err, text)
		}
		for r, err := range DecodeJSON(bytes.NewReader(text)) {
			if err != nil || r.Head().Sensor != "n1" {
				t.Errorf("%v, %+v", err, r)
			}
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
