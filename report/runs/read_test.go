package runs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

func read(t testing.TB, dir, cache string, opened int) *Collected {
	t.Helper()
	l, err := Read(t.Context(), []string{dir}, Options{Cache: cache})
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

// A list has the figures of a report, whether its files are read or the index.
func TestListHasTheFiguresOfReports(t *testing.T) {
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "rt")
	var reports Collected
	for i, path := range []string{makeRun(t, dir, 1), makeRun(t, dir, 2), makeAnyRun(t, dir, 3, rt.JobPresent), makeAnyRun(t, dir, 4, rt.JobNone), makeAnyRun(t, dir, 5, rt.JobPending)} {
		r, err := spool.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := report.Summarize(r.Run(), nil, r.Snapshots(t.Context(), 1, 0))
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
		isKnown := s.CPU.UsedSecs.Valid() && s.Memory.PeakBytes.Valid() && s.CPU.Cores.Valid() && len(s.GPUs) > 0
		if isPending := i == 4; !isKnown && !isPending {
			t.Errorf("%s has no figures to compare: %+v", path, s)
		}
		reports.Summaries = append(reports.Summaries, s)
	}
	want := reports.Lines(Filter{}, false, report.DefaultPrices)
	first := read(t, dir, cache, 5).Lines(Filter{}, false, report.DefaultPrices)
	second := read(t, dir, cache, 0).Lines(Filter{}, false, report.DefaultPrices)
	if first[0].GPUs != rt.Some[uint64](1) || first[0].GPUPct != rt.Some(50.0) || first[0].CPUPct != rt.Some(50.0) || first[0].MemoryPct != rt.Some(25.0) || first[0].State != "finished" {
		t.Errorf("%+v", first[0])
	}
	opts := cmp.AllowUnexported(rt.Opt[float64]{}, rt.Opt[uint64]{}, rt.Opt[int64]{})
	if diff := cmp.Diff(want, first, opts); diff != "" {
		t.Errorf("of reports and of files (-reports +files):\n%s", diff)
	}
	if diff := cmp.Diff(first, second, opts); diff != "" {
		t.Errorf("of files and of the index (-files +index):\n%s", diff)
	}
}

// makeAnyRun writes the run of a job with all figures of a snapshot, at random, in a phase.
func makeAnyRun(t testing.TB, dir string, job uint64, phase rt.JobPhase) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(job, 1))
	run := rt.Run{
		Identity: rt.Identity{Cluster: "c", JobID: rt.Some(job), ArrayJobID: rt.Some[uint64](3), ArrayTaskID: rt.Some(job), Node: "n2", BootID: "b", Attempt: 2, Start: begin.Add(time.Hour)},
		Ending:   rt.Ending{State: rt.StateRunning},
	}
	run.JobStart, run.JobEndLimit, run.NumNodes, run.NodeList = begin, begin.Add(time.Hour*2), rt.Some[uint64](2), "n[1-2]"
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	small := func() rt.Opt[uint64] { return rt.Some(rng.Uint64N(1000) << 12) }
	for i := range int64(50) {
		v := uint64(i)
		s := rt.Snapshot{Seq: i + 1, Wall: run.Start.UnixNano() + i*10e9, Boot: 1e9 + i*10e9, Job: rt.JobReading{Phase: phase}}
		for k := range rt.JobFigures {
			*rt.JobFigures[k].Field(&s.Job) = small()
		}
		for k := range rt.NodeFigures {
			*rt.NodeFigures[k].Field(&s.Node) = small()
		}
		s.Job.CPUUsage, s.Node.CPU, s.Node.CPUs = rt.Some(v*v*1e6), rt.Some(rt.CPUTimes{User: v * 900, Idle: v * 90}), rt.Some[uint64](16)
		for _, uuid := range []string{"g1", "g2"} {
			s.GPUs = append(s.GPUs, rt.GPUReading{UUID: uuid, Utilization: rt.Some(rng.Float64() * 100), InJob: rt.Some(uuid == "g2"), VRAMUsed: small()})
		}
		s.Steps = []rt.StepReading{{Step: "0", CPUUsage: small()}}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	run.Apply(rt.Exit{Code: rt.Some[int64](2), Signal: rt.Some[int64](9), Derived: rt.Some[int64](3), Outcome: rt.OutcomeFailed, Source: "epilog", Time: run.Start.Add(500 * time.Second)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	age(t, w.Path())
	return w.Path()
}

// interrupt ends a list when some files are done.
type interrupt struct {
	begun, done, after int
	cancel             func()
	mu                 sync.Mutex
}

func (p *interrupt) Begin(files int) { p.begun = files }

func (p *interrupt) Done(string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.done == p.after {
		p.cancel()
	}
}

// The files that were read before an interruption are not read again.
func TestInterruptedListIsKept(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	for job := range uint64(20) {
		makeRun(t, dir, job+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	p := &interrupt{after: 7, cancel: cancel}
	_, err := Read(ctx, []string{dir}, Options{Cache: cache, Progress: p})
	kept := openIndex(cache, dir).kept
	if text := fmt.Sprint(err); !errors.Is(err, context.Canceled) || !strings.HasSuffix(text, fmt.Sprintf("the next list does not read %d of them again", kept)) {
		t.Fatalf("an interrupted list: %v", err)
	}
	if p.begun != 20 || p.done < 7 || p.done == 20 {
		t.Fatalf("%d of %d files were read", p.done, p.begun)
	}
	l, err := Read(t.Context(), []string{dir}, Options{Cache: cache})
	if err != nil || l.Opened != 20-kept || kept < 6 || len(l.Summaries) != 20 {
		t.Errorf("then %d files were opened for %d runs, %v", l.Opened, len(l.Summaries), err)
	}
	read(t, dir, cache, 0)
}

// A changed index is read again. One that ends early or has other lengths makes no panic even if its checksum is
// right.
func TestDamagedIndex(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	makeRun(t, dir, 1)
	makeAnyRun(t, dir, 2, rt.JobPresent)
	read(t, dir, cache, 2)
	x := openIndex(cache, dir)
	whole, err := os.ReadFile(x.path)
	if err == nil {
		err = x.decode(whole)
	}
	if err != nil || len(x.runs) != 2 {
		t.Fatalf("%d runs, %v", len(x.runs), err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for n := range whole {
		for _, data := range [][]byte{slices.Clone(whole[:n+1]), slices.Clone(whole)} {
			data[n] ^= byte(1 + rng.IntN(255))
			if x.decode(data) == nil {
				t.Fatalf("an index of %d bytes with another byte %d was read", len(data), n)
			}
			if len(data) > sumSize {
				binary.LittleEndian.PutUint32(data, crc32.ChecksumIEEE(data[sumSize:]))
				_ = x.decode(data)
			}
		}
	}
	if err := os.WriteFile(x.path, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	read(t, dir, cache, 2)
	read(t, dir, cache, 0)
}

// A file that differs from its entry in the index is read again: a changed file, a copy with the same name, a tracked
// run. A removed file is not listed.
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
	age(t, paths[2]) // its size and time may be as in the old file
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

// A run with a figure that no file of JSON can have does not keep the others out of the index.
func TestIndexOfAnInfiniteFigure(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	makeRun(t, dir, 1)
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](2), Node: "n1", Start: begin}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(2) {
		s := rt.Snapshot{Seq: i + 1, Wall: begin.UnixNano() + i*1e9, Boot: (i + 1) * 1e9, Job: rt.JobReading{Phase: rt.JobPresent}}
		s.GPUs = []rt.GPUReading{{UUID: "g", Utilization: rt.Some(math.Inf(1)), InJob: rt.Some(true)}} // an FTDC file can have it
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	run.Apply(rt.Exit{Outcome: rt.OutcomeFinished, Time: begin.Add(time.Second)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	age(t, w.Path())
	first := read(t, dir, cache, 2)
	if gpu := first.Summaries[0].GPUs; len(gpu) != 1 || !math.IsInf(gpu[0].BusyPct.Or(0), 1) {
		t.Fatalf("the run has no infinite figure: %+v", gpu)
	}
	read(t, dir, cache, 0)
}

// An index is a regular file of this user. Anything else in its place is not read, and is replaced.
func TestIndexIsAFileOfThisUser(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	makeRun(t, dir, 1)
	read(t, dir, cache, 1)
	read(t, dir, cache, 0)
	found, err := filepath.Glob(filepath.Join(cache, "jobs-*.index"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	index, other := found[0], filepath.Join(t.TempDir(), "index")
	for name, replace := range map[string]func() error{
		"a link":                 func() error { return errors.Join(os.Rename(index, other), os.Symlink(other, index)) },
		"a FIFO":                 func() error { return errors.Join(os.Remove(index), unix.Mkfifo(index, 0o600)) },
		"a file of another user": func() error { return os.Chown(index, os.Geteuid()+1, -1) },
	} {
		err := replace()
		isForbidden := errors.Is(err, unix.EPERM) || errors.Is(err, unix.EINVAL) // EINVAL: a user that the namespace does not have
		if isForbidden {
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
		f := &file{path: filepath.Join(dir, s.Run.FileStem()+".db"), figures: s.Figures()}
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
