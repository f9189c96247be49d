package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/cgroupfs"
	"github.com/resource-tracker/rt/slurm/layout"
)

// node is a fixture: the directories of a node on which job 5 runs. Its comment says what
// is known of the run and what is to be found.
type node struct {
	run        rt.Run
	mounts     cgroupfs.Mounts
	name, path string
	io         bool // whether the job has figures of its I/O
}

func unpackLayout(t *testing.T, file, root string) node {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l := node{run: rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](5)}, Allocation: rt.Allocation{UID: rt.Some[uint64](1001)}}, io: true}
	_, known, _ := strings.Cut(string(a.Comment), "\n\n")
	for line := range strings.Lines(known) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "node":
			l.run.Node = value
		case "sluid":
			l.run.SLUID = value
		case "layout":
			l.name = value
		case "path":
			l.path = filepath.Join(root, value)
		case "no-io":
			l.io = false
		default:
			t.Fatalf("%s: %q", file, line)
		}
	}
	for _, f := range a.Files {
		name := filepath.Join(root, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
		switch top, _, _ := strings.Cut(f.Name, "/"); {
		case top == "unified":
			l.mounts.V2 = filepath.Join(root, top)
		case l.mounts.V1 == nil:
			l.mounts.V1 = map[string]string{}
			fallthrough
		default:
			l.mounts.V1[top] = filepath.Join(root, top)
		}
	}
	return l
}

// Every layout that Slurm has had is resolved to this node's directory of this job,
// and read, its steps and tasks too.
func TestLayouts(t *testing.T) {
	files, err := filepath.Glob("../../slurm/layout/testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			l := unpackLayout(t, file, t.TempDir())
			job := manual(t, layout.Candidates(&l.run, l.mounts)...)
			job.state.tasks.Settle = 0 // v1's directories of a task are matched
			job.step(nil)
			if name, path, ok := job.Found(); name != l.name || path != l.path || !ok {
				t.Errorf("found %s at %s, %t; want %s at %s", name, path, ok, l.name, l.path)
			}
			var s rt.Snapshot
			if err := job.Read(&s); err != nil {
				t.Fatal(err)
			}
			five := rt.Some[uint64](5000)
			if s.Job.CPUUsage != five || s.Job.MemPeak != five || s.Job.Pids != rt.Some[uint64](2) {
				t.Errorf("CPU %v, peak %v, processes %v are another's", s.Job.CPUUsage, s.Job.MemPeak, s.Job.Pids)
			}
			if s.Job.IOReadBytes.Valid() != l.io || s.Job.IOWriteBytes.Valid() != l.io {
				t.Errorf("read %v, written %v", s.Job.IOReadBytes, s.Job.IOWriteBytes)
			}
			if len(s.Steps) != 2 || s.Steps[0].Step != "batch" || s.Steps[1].Task != rt.Some[uint64](0) || s.Steps[1].CPUUsage != five {
				t.Errorf("steps %+v", s.Steps)
			}
		})
	}
}
