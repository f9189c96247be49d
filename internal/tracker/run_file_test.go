package tracker

import (
	"errors"
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
