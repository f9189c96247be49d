//go:build lake

package lake

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/lake"
	"github.com/resource-tracker/rt/site/objects"
	sitereport "github.com/resource-tracker/rt/site/report"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// perRun is the number of samples of a run in the figures.
const perRun = 100

// load is a run with perRun readings, on a node with one network interface and one disk. It has all figures of a node
// without GPUs; each tenth job uses GPUs. Without lists it has the figures of the node and the job only.
func load(n int, hasLists bool) (rt.Run, []rt.Snapshot) {
	run, _ := runtest.Job()
	u := rt.Some[uint64]
	run.JobID, run.Node, run.Start = u(uint64(1_000_000+n)), fmt.Sprintf("n%03d", n%500), run.Start.Add(time.Duration(n)*7*time.Second)
	run.Cluster, run.User, run.Account, run.Partition = "c1", fmt.Sprintf("user%d", n%97), fmt.Sprintf("project%d", n%13), []string{"short", "long"}[n%2]
	run.AllocMem, run.Meta.JobName, run.JobStart = u(4<<30), fmt.Sprintf("job-%d", n%31), run.Start
	if n%10 == 0 {
		run.GPUs = "1"
	}
	list := make([]rt.Snapshot, perRun)
	noise := uint64(n)*2654435761 + 1
	random := func(most uint64) uint64 {
		noise ^= noise << 13
		noise ^= noise >> 7
		noise ^= noise << 17
		return noise % most
	}
	for i := range list {
		s := &list[i]
		s.Seq, s.Wall, s.Boot = int64(i+1), run.Start.UnixNano()+int64(i)*10e9+int64(random(3e6)), int64(n)*1e9+int64(i)*10e9
		s.Job.Phase = rt.JobPresent
		s.Node.CPU.Set(rt.CPUTimes{User: uint64(i)*900 + random(90), System: uint64(i) * 10, Idle: uint64(i)*5000 + random(99)})
		for k := range rt.NodeFigures {
			if f := &rt.NodeFigures[k]; !strings.HasPrefix(f.Name, "gpu") {
				set(f.Field(&s.Node), i, k, f.Kind, f.Derived, random)
			}
		}
		for k := range rt.JobFigures {
			f := &rt.JobFigures[k]
			set(f.Field(&s.Job), i, k, f.Kind, f.Derived, random)
		}
		s.Job.MemLimit, s.Job.MemPeak = run.AllocMem, u(run.AllocMem.Or(0)/100*uint64(n*37%97+i/40))
		if n%10 == 0 {
			s.GPU.Usage = rt.Some(float64(random(200)) / 100)
		}
		if hasLists {
			s.Nets = []rt.NetReading{{Name: "eth0", OperState: "up", RxBytes: u(uint64(i)*1e5 + random(9e4)), TxBytes: u(uint64(i)*1e4 + random(9e3))}}
			s.Disks = []rt.DiskReading{{Name: "nvme0n1", Leaf: true, Type: "nvme", ReadBytes: u(uint64(i) * 4096 * random(50)), WriteBytes: u(uint64(i) * 512 * random(9))}}
			s.Steps = []rt.StepReading{{Step: "batch", CPUUsage: u(uint64(i)*9e6 + random(1e6)), MemCurrent: u((1 << 30) + random(1e8)), Pids: u(3)}}
			for p := range 2 {
				s.Procs = append(s.Procs, rt.ProcessReading{PID: uint64(1000 + n%1000 + p), Start: uint64(n), Comm: "solve", Step: "batch", UserTicks: u(uint64(i)*450 + random(50)), SystemTicks: u(uint64(i)), RSS: u((1 << 29) + random(1e7)&^4095), Threads: u(2)})
			}
		}
	}
	return run, list
}

// set gives a figure a value: a level or a count that moves, or one that seldom changes.
func set(v *rt.Opt[uint64], i, k int, kind rt.Kind, moves bool, random func(uint64) uint64) {
	switch {
	case !moves && kind != rt.Counter:
		v.Set(uint64(k) << 20)
	case kind == rt.Counter:
		v.Set(uint64(i)*uint64(1000*(k+1)) + random(1000))
	default:
		v.Set(1<<30 + random(1<<20)&^4095)
	}
}

// TestFigures measures the writer, the decoding of records, and queries. It has no limits: the load of the machine
// changes its figures.
func TestFigures(t *testing.T) {
	runs, err := strconv.Atoi(os.Getenv("RT_RUNS"))
	if err != nil {
		t.Skip("contrib/test/lake bench sets RT_RUNS")
	}
	measureDecoding(t)
	measurePass(t, max(runs/100, 1))
	for _, hasLists := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "lake")
		n := runs
		if hasLists {
			n = max(runs/10, 1)
		}
		measureWriter(t, dir, n, hasLists)
		if !hasLists {
			cmd := exec.CommandContext(t.Context(), os.Getenv("RT_LAKE_PYTHON"), "testdata/seconds.py", dir, "../../docs/lake.md")
			t.Logf("%s", output(t, cmd))
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}

// measureWriter writes runs that are decoded already: the same readings, with other jobs and times.
func measureWriter(t *testing.T, dir string, runs int, hasLists bool) {
	t.Helper()
	const different = 1000 // a row group has the samples of 655 runs: it has none twice
	var pool [different][]rt.Snapshot
	var summaries [different]*report.Summary
	var of [different]rt.Run
	for i := range pool {
		of[i], pool[i] = load(i, hasLists)
		of[i].State = rt.StateEnded
		of[i].Apply(rt.Exit{Outcome: []rt.Outcome{rt.OutcomeFinished, rt.OutcomeFailed}[i%3%2], Source: "epilog", Time: of[i].Start.Add(perRun * 10 * time.Second)})
		s, err := report.Summarize(of[i], nil, all(pool[i]))
		if err != nil {
			t.Fatal(err)
		}
		summaries[i] = s
	}
	list := make([]site.Changed, runs)
	for n := range list {
		run := of[n%different]
		run.JobID, run.Start = rt.Some(uint64(1_000_000+n)), of[0].Start.Add(time.Duration(n)*7*time.Second/8)
		list[n] = site.Changed{ID: strconv.Itoa(n), Cluster: run.Cluster, Start: run.Start, Name: run.FileStem(), JobID: run.JobID, State: run.State}
	}
	began, cpu := time.Now(), cpuTime(t)
	l := openLake(t, dir, &fixed{list: list}, func(_ context.Context, id string) (*lake.DecodedRun, error) {
		n, err := strconv.Atoi(id)
		run := of[n%different]
		shift := list[n].Start.Sub(run.Start)
		run.JobID, run.Start, run.End = list[n].JobID, list[n].Start, run.End.Add(shift)
		return &lake.DecodedRun{
			Run: run, Report: summaries[n%different], Close: func() error { return nil },
			Snapshots: func(yield func(*rt.Snapshot, error) bool) {
				for _, s := range pool[n%different] {
					s.Wall += shift.Nanoseconds()
					if !yield(&s, nil) {
						return
					}
				}
			},
		}, err
	})
	done, err := l.Write(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	merged, err := l.Compact(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("merged files: %+v", merged)
	took, used := time.Since(began), cpuTime(t)-cpu
	t.Logf("writer, with lists %v: %d samples of %d runs in %.1f s, %.1f s of CPU: %.0f samples per second of CPU; %d bytes in %d files, %.1f bytes per sample",
		hasLists, done.Samples, done.Runs, took.Seconds(), used.Seconds(), float64(done.Samples)/used.Seconds(), done.Bytes, done.Files, float64(done.Bytes)/float64(done.Samples))
}

// openLake opens a lake in a directory, with its catalog next to it.
func openLake(t *testing.T, dir string, r lake.Registry, decode lake.Decoder) *lake.Lake {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+dir+".db?_busy_timeout=10000&_journal_mode=WAL&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	c, err := lake.SQLCatalog(db, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lake.Open(t.Context(), lake.Config{
		Catalog: c, Warehouse: "file://" + dir, Registry: r, Decode: decode,
		Check: func(context.Context) error { return nil }, Problem: func(run string, err error) { t.Errorf("%s: %v", run, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// fixed is a registry of runs that the lake lacks.
type fixed struct {
	list []site.Changed
	next int
}

func (f *fixed) ChangedRuns(_ context.Context, _ site.Changed, limit int) ([]site.Changed, error) {
	page := f.list[f.next:min(f.next+limit, len(f.list))]
	f.next += len(page)
	return page, nil
}

func (*fixed) Registrations(_ context.Context, c site.Changed) ([]site.Changed, error) {
	return []site.Changed{c}, nil
}

func (*fixed) GoneRuns(context.Context, site.Changed, int) ([]site.Changed, error) { return nil, nil }

func (*fixed) MarkWritten(context.Context, []site.Changed) error { return nil }

func (*fixed) ForgetGone(context.Context, []site.Changed) error { return nil }

func all(list []rt.Snapshot) func(yield func(*rt.Snapshot, error) bool) {
	return func(yield func(*rt.Snapshot, error) bool) {
		for i := range list {
			if !yield(&list[i], nil) {
				return
			}
		}
	}
}

// measureDecoding reads records as rt-lake does: the summary of each, and its readings.
func measureDecoding(t *testing.T) {
	t.Helper()
	const runs = 200
	var records [][]byte
	for n := range runs {
		run, list := load(n, true)
		r := runtest.Spool(t, run, list)
		var b bytes.Buffer
		if err := archive.Write(t.Context(), &b, r, nil); err != nil {
			t.Fatal(err)
		}
		records = append(records, b.Bytes())
	}
	began, cpu := time.Now(), cpuTime(t)
	nothing := func(context.Context, *spool.Reader, *report.Summary) error { return nil }
	for _, record := range records {
		m, _, err := sitereport.Decode(t.Context(), t.TempDir(), nil, bytes.NewReader(record), nothing)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range m.Snapshots(t.Context(), 1, 0) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	took, used := time.Since(began), cpuTime(t)-cpu
	t.Logf("decoding: %d records with %d samples each in %.1f s, %.1f s of CPU: %.0f samples per second of CPU", runs, perRun, took.Seconds(), used.Seconds(), runs*perRun/used.Seconds())
}

// measurePass measures rt-lake, from the registry and the objects in a directory to the files in another one. Of each
// different run there are records with other jobs and times.
func measurePass(t *testing.T, runs int) {
	t.Helper()
	const different = 50
	s := newTestSite(t, filepath.Join(t.TempDir(), "lake"), "")
	store, err := objects.OpenDir(filepath.Join(s.dir, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var readers [different]*spool.Reader
	for n := range readers {
		run, list := load(n, true)
		readers[n] = runtest.Spool(t, run, list)
	}
	for n := range runs {
		r := readers[n%different]
		run := r.Run()
		start := run.Start.Add(time.Duration(n) * time.Second)
		alter := func(of *rt.Run) { of.JobID, of.Start = rt.Some(uint64(1_000_000+n)), start }
		alter(&run)
		var b bytes.Buffer
		if err := archive.Write(t.Context(), &b, r, &spool.DumpOptions{Run: alter}); err != nil {
			t.Fatal(err)
		}
		s.deliver(t, n, run, b.Bytes(), store)
	}
	cmd := s.program(t.Context(), "rt-lake", "--json")
	began := time.Now()
	var done lake.Totals
	if err := json.Unmarshal(output(t, cmd), &done); err != nil {
		t.Fatal(err)
	}
	if done.Runs != runs || done.Samples != int64(runs*perRun) {
		t.Fatalf("a pass wrote %+v", done)
	}
	took, used := time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	t.Logf("pass of rt-lake on %d processors, with lists: %d samples of %d runs in %.1f s, %.1f s of CPU: %.0f samples per second, %.0f per second of CPU",
		runtime.NumCPU(), done.Samples, done.Runs, took.Seconds(), used.Seconds(), float64(done.Samples)/took.Seconds(), float64(done.Samples)/used.Seconds())
}

// cpuTime is the processor time of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
