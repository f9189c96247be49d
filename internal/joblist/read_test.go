package joblist

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

var begin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// makeRun writes the run of a job with two readings, and returns its file. Its last change
// was an hour ago.
func makeRun(t testing.TB, dir string, job uint64) string {
	t.Helper()
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(job), Node: "n1", BootID: "b", Start: begin.Add(time.Duration(job) * time.Second)},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "anna", Account: "chem", Partition: "main", AllocCPUs: rt.Some[uint64](4), NodeList: "n1", NumNodes: rt.Some[uint64](1)},
		Meta:       rt.Metadata{JobName: "relax", Tags: map[string]string{"a": "b"}},
		Command:    []string{"solve"},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(2) {
		s := rt.Snapshot{Seq: i + 1, Wall: run.Start.UnixNano() + i*10e9, Boot: 1e9 + i*10e9}
		s.Job = rt.JobReading{Phase: rt.JobPresent, CPUUsage: rt.Some(uint64(20e6 * i)), MemCurrent: rt.Some[uint64](1 << 30), MemPeak: rt.Some[uint64](2 << 30), MemLimit: rt.Some[uint64](8 << 30)}
		s.GPUs = []rt.GPUReading{{UUID: "g", Utilization: rt.Some(50.0), InJob: rt.Some(true), VRAMUsed: rt.Some[uint64](1), VRAMTotal: rt.Some[uint64](4)}}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "sacct", Time: run.Start.Add(10 * time.Second)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	age(t, w.Path())
	return w.Path()
}

func age(t testing.TB, path string) {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, dir, cache string, opened int) *Runs {
	t.Helper()
	l, err := Read(t.Context(), []string{dir}, cache)
	if err != nil {
		t.Fatal(err)
	}
	if l.Opened != opened {
		t.Errorf("%d files were opened, want %d", l.Opened, opened)
	}
	if err := errors.Join(append(l.Problems, l.IndexErr)...); err != nil {
		t.Error(err)
	}
	return l
}

// A list from the index is the same as a list from the files.
func TestIndexGivesTheSameJobs(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "rt")
	for job := range uint64(5) {
		makeRun(t, dir, job+1)
	}
	same := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	jobs := func(l *Runs) (out []report.Job) {
		for _, j := range report.Jobs(l.Summaries) {
			one := *j
			one.Runs = nil
			out = append(out, one)
		}
		return out
	}
	first := jobs(read(t, dir, cache, 5))
	if len(first) != 5 || first[0].GPUs.Count != 1 || first[0].GPUs.BusyPct != rt.Some(50.0) || first[0].Nodes.UsedPct != rt.Some(50.0) || first[0].Nodes.WorstPct != rt.Some(25.0) || first[0].Outcome != rt.OutcomeFinished {
		t.Fatalf("%+v", first[0])
	}
	second := jobs(read(t, dir, cache, 0))
	opts := cmp.Options{same, cmp.AllowUnexported(rt.Opt[float64]{}, rt.Opt[uint64]{}, rt.Opt[int64]{}, rt.Opt[bool]{})}
	for i := range first {
		first[i].Nodes.UserSecs.Clear() // the index does not keep it
		first[i].Nodes.SystemSecs.Clear()
	}
	if diff := cmp.Diff(first, second, opts); diff != "" {
		t.Errorf("of files and of the index (-files +index):\n%s", diff)
	}
}

// A file that differs from its entry in the index is read again: a new or changed file, a copy with
// the same name, and a run that is tracked. A removed file is not listed.
func TestIndexIsNeverTheTruth(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	var paths []string
	for job := range uint64(4) {
		paths = append(paths, makeRun(t, dir, job+1))
	}
	read(t, dir, cache, 4)

	r, err := spool.Open(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	run := r.Run()
	run.Outcome = rt.OutcomeTimeout
	if err := errors.Join(r.UpdateRun(run), r.Close(), os.Remove(paths[1])); err != nil {
		t.Fatal(err)
	}
	makeRun(t, dir, 9)
	other := makeRun(t, t.TempDir(), 7)
	data, err := os.ReadFile(other)
	if err == nil {
		err = errors.Join(os.Remove(paths[2]), os.WriteFile(paths[2], data, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	age(t, paths[2]) // its size and time may be those of the old file
	w, err := spool.Create(dir, rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](10), Node: "n1", Start: begin.Add(time.Hour)}, Ending: rt.Ending{State: rt.StateRunning}}, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l := read(t, dir, cache, 4)
	var got []string
	for _, s := range l.Summaries {
		got = append(got, s.Label+" "+string(s.Run.State)+" "+string(s.Run.Outcome))
	}
	want := "1 ended timeout, 4 ended finished, 7 ended finished, 9 ended finished, 10 running "
	if strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", strings.Join(got, ", "), want)
	}
	read(t, dir, cache, 2) // the tracked one, and the one that has just changed
}

// An index is a regular file of this user. Anything else in its place is not read, and is replaced.
func TestIndexIsAFileOfThisUser(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	makeRun(t, dir, 1)
	read(t, dir, cache, 1)
	read(t, dir, cache, 0)
	found, err := filepath.Glob(filepath.Join(cache, "jobs-*.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	index, other := found[0], filepath.Join(t.TempDir(), "index")
	for name, replace := range map[string]func() error{
		"a link":                 func() error { return errors.Join(os.Rename(index, other), os.Symlink(other, index)) },
		"a FIFO":                 func() error { return errors.Join(os.Remove(index), unix.Mkfifo(index, 0o600)) },
		"a file of another user": func() error { return os.Chown(index, 65534, -1) },
	} {
		err := replace()
		if mayNotChown := os.Geteuid() != 0 && errors.Is(err, unix.EPERM); mayNotChown {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Log(name)
		read(t, dir, cache, 1)
		read(t, dir, cache, 0)
	}
}

func TestWithoutIndex(t *testing.T) {
	dir := t.TempDir()
	makeRun(t, dir, 1)
	read(t, dir, "", 1)
	read(t, dir, "", 1)
}

// BenchmarkFiles measures a list of 500 runs without an index.
func BenchmarkFiles(b *testing.B) {
	const runs = 500
	dir := b.TempDir()
	for job := range uint64(runs) {
		makeRun(b, dir, job+1)
	}
	for b.Loop() {
		read(b, dir, "", runs)
	}
}

// BenchmarkIndex measures a list of 10,000 jobs with an index.
func BenchmarkIndex(b *testing.B) {
	const runs = 10_000
	dir, cache := b.TempDir(), b.TempDir()
	one := read(b, filepath.Dir(makeRun(b, b.TempDir(), 1)), "", 1).Summaries[0]
	var files []*file
	for job := range uint64(runs) {
		s := *one
		s.Run.JobID.Set(job)
		f := &file{path: filepath.Join(dir, s.Run.FileStem()+".db"), summary: &s}
		if err := os.WriteFile(f.path, nil, 0o600); err != nil { // it is not opened
			b.Fatal(err)
		}
		age(b, f.path)
		st, err := os.Lstat(f.path)
		if err != nil {
			b.Fatal(err)
		}
		f.state = stampOf(st)
		files = append(files, f)
	}
	if err := openIndex(cache, dir).replace(files); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if jobs := report.Jobs(read(b, dir, cache, 0).Summaries); len(jobs) != runs {
			b.Fatalf("%d jobs", len(jobs))
		}
	}
}
