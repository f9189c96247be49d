package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// Outside Slurm the limits of the container of a command are read.
func TestContainerOfACommand(t *testing.T) {
	proc, box := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		proc + "/self/cgroup": "0::/\n", proc + "/self/mountinfo": "41 34 0:37 / " + box + " rw - cgroup2 cgroup2 rw\n",
		box + "/memory.max": "209715200\n", box + "/memory.events": "oom_kill 2\n", box + "/cpu.max": "150000 100000\n",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SLURM_JOB_ID", "")
	s := settings{procfs: proc, sysfs: t.TempDir(), scope: rt.ScopeNode, interval: time.Second}
	trk := &tracking{run: newRun(s, 1, time.Now())}
	if trk.run.AllocCPUs != rt.Some[uint64](2) {
		t.Errorf("%v CPUs", trk.run.AllocCPUs)
	}
	if err := trk.openSources(s, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	var snap rt.Snapshot
	for _, source := range trk.sources {
		if source.Name() == "container" {
			if err := source.Read(&snap); err != nil {
				t.Error(err)
			}
		}
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	}
	if want := (rt.JobReading{MemLimit: rt.Some[uint64](200 << 20), EventsOOMKill: rt.Some[uint64](2)}); snap.Job != want {
		t.Errorf("%+v, want %+v", snap.Job, want)
	}
}
