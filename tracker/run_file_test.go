package tracker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// The first reading waits for the file, and is in it.
func TestRunFileWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, put := NewRunFile(), false
		done := make(chan error)
		go func() {
			err := f.Put(&rt.Snapshot{Seq: 1, Boot: 1, Wall: 1, Reason: rt.ReasonFirst})
			put = true
			done <- err
		}()
		synctest.Wait()
		if put {
			t.Fatal("Put returned before there is a file")
		}
		dir := t.TempDir()
		run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](1), Node: "n1", Start: time.Now()}, Ending: rt.Ending{State: rt.StateRunning}}
		f.Create(func() (*spool.Writer, error) {
			return spool.Create(dir, run, rt.Host{}, spool.Options{})
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		path := f.Writer().Path()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		entries, err := spool.List(dir)
		if err != nil || len(entries) != 1 || entries[0].Snapshots != 1 {
			t.Errorf("%s: %+v, %v", path, entries, err)
		}
	})
}

// The reading does not wait to note what a sensor lacks: the events are in the file, in their order.
func TestRunFileKeepsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, dir := NewRunFile(), t.TempDir()
		run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](1), Node: "n1", Start: time.Now()}, Ending: rt.Ending{State: rt.StateRunning}}
		at := time.Now().UTC()
		f.Event(rt.Event{Kind: "sensor", Name: "cpu frequency", Status: "absent", Time: at})
		f.Event(rt.Event{Kind: "sensor", Name: "fabric", Status: "absent", Time: at})
		f.Create(func() (*spool.Writer, error) {
			w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
			f.Event(rt.Event{Kind: "sensor", Name: "lustre", Status: "absent", Time: at})
			if err == nil {
				w.Event(rt.Event{Kind: "spool", Name: "access", Status: "failed", Time: at})
			}
			return w, err
		})
		f.Event(rt.Event{Kind: "sensor", Name: "nfs", Status: "absent", Time: at})
		path := f.Writer().Path()
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := spool.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		events, err := r.Events()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range events {
			got = append(got, e.Name)
			if !e.Time.Equal(at) {
				t.Errorf("%s: %s, want %s", e.Name, e.Time, at)
			}
		}
		if want := []string{"access", "cpu frequency", "fabric", "lustre", "nfs"}; !slices.Equal(got, want) {
			t.Errorf("events of %q, want %q", got, want)
		}
	})
}

// Without a file the reason is returned.
func TestRunFileFails(t *testing.T) {
	fault := errors.New("the disk is full")
	for name, create := range map[string]func() (*spool.Writer, error){
		"error": func() (*spool.Writer, error) { return nil, fault },
		"panic": func() (*spool.Writer, error) { panic(fault) },
	} {
		t.Run(name, func(t *testing.T) {
			f := NewRunFile()
			f.Create(create)
			f.Event(rt.Event{Kind: "job"})
			if f.Writer() != nil {
				t.Error("there is a writer")
			}
			for _, err := range []error{f.Wait(), f.Put(&rt.Snapshot{}), f.UpdateRun(rt.Run{}), f.Flush(), f.Discard(), f.Close()} {
				if err == nil || !strings.Contains(err.Error(), fault.Error()) {
					t.Errorf("error %v", err)
				}
			}
		})
	}
}
