package runs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// kindOfJob is a job name with the programs, arguments or inputs that it stands for, in random order.
type kindOfJob struct {
	name       string
	requestMiB uint64 // 0: three times what the program needs
	programs   []jobProgram
}

// jobProgram is what a program needs. The runs of one differ by at most noise of that.
type jobProgram struct {
	mib, secs float64
	cores     uint64
}

const noise = 0.04

// users are five users with recurring job names.
var users = []struct {
	name string
	jobs []kindOfJob
}{
	{"anna", []kindOfJob{{"run.sh", 6000, []jobProgram{{26, 90, 1}, {640, 3000, 1}, {4800, 9000, 4}}}, {"post", 0, []jobProgram{{310, 200, 1}}}}},
	{"ben", []kindOfJob{{"train", 64 << 10, []jobProgram{{9000, 4 * 3600, 8}, {23000, 30 * 3600, 8}}}, {"eval", 64 << 10, []jobProgram{{1500, 700, 2}, {1900, 900, 2}}}}},
	{"chen", []kindOfJob{{"sweep", 40 << 10, []jobProgram{{1100, 600, 1}, {2300, 1300, 1}, {4800, 2800, 1}, {10000, 6000, 1}, {21000, 13000, 1}}}}},
	{"dora", []kindOfJob{{"job", 0, []jobProgram{{40, 100, 1}, {335, 500, 2}, {27000, 25000, 8}}}, {"solve", 16 << 10, []jobProgram{{8000, 5000, 6}}}}},
	{"emil", []kindOfJob{{"a.out", 8000, []jobProgram{{60, 70, 1}, {6500, 80, 8}}}, {"a.out2", 8000, []jobProgram{{2000, 7000, 2}, {2050, 400, 2}}}, {"fit", 4000, []jobProgram{{500, 300, 1}, {900, 300, 1}}}}},
}

// recordedJob is a job in the spool with what its program needs at most.
type recordedJob struct {
	mib, secs     float64
	cores         uint64
	limitSecs     float64
	suspendedSecs float64
	outcome       rt.Outcome
}

// recordJob draws a job and writes its run into a spool directory. Most jobs finish. One in 20 fails halfway, one is
// killed for memory, one stopped at its time limit, and one suspended for an hour.
func recordJob(t *testing.T, dir, user string, kind *kindOfJob, id uint64, start time.Time, r *rand.Rand) recordedJob {
	t.Helper()
	p := kind.programs[r.IntN(len(kind.programs))]
	vary := func(most float64) float64 { return most * (1 - float64(2*noise/(1+noise)*r.Float64())) }
	j := recordedJob{mib: p.mib * (1 + noise), secs: p.secs * (1 + noise), cores: p.cores, limitSecs: 48 * 3600, outcome: rt.OutcomeFinished}
	mib, secs, limitMiB := vary(j.mib), vary(j.secs), float64(kind.requestMiB)
	if limitMiB == 0 {
		limitMiB = 3 * p.mib
	}
	switch r.IntN(20) {
	case 0:
		j.outcome, mib, secs = rt.OutcomeFailed, mib/2, secs/2
	case 1:
		j.outcome, limitMiB = rt.OutcomeOOM, 0.7*mib
		mib = limitMiB
	case 2:
		j.outcome, j.limitSecs = rt.OutcomeTimeout, 0.7*secs
		secs = j.limitSecs
	case 3:
		j.suspendedSecs = 3600
	}
	span := time.Duration((secs + j.suspendedSecs) * 1e9)
	run := rt.Run{
		Identity: rt.Identity{Cluster: "c", JobID: rt.Some(id), Node: "n1", BootID: "boot", Start: start},
		Allocation: rt.Allocation{
			Scheduler: "slurm", User: user, Account: "lab", Partition: "main", WorkDir: "/home/" + user, AllocCPUs: rt.Some[uint64](16), NumNodes: rt.Some[uint64](1),
			JobStart: start, JobEndLimit: start.Add(time.Duration(j.limitSecs * 1e9)),
		},
		Meta:   rt.Metadata{JobName: kind.name},
		Ending: rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const readings = 5
	for i := range int64(readings) {
		at := int64(span) * i / (readings - 1)
		s := rt.Snapshot{Seq: i + 1, Wall: start.UnixNano() + at, Boot: 500e9 + at, Reason: rt.ReasonTick}
		s.Job.Phase = rt.JobPresent
		switch i {
		case 0:
			s.Reason, s.Job.Phase = rt.ReasonFirst, rt.JobPending
		case readings - 1:
			s.Reason = rt.ReasonLast
		}
		if i > 0 {
			used := secs * float64(i) / (readings - 1) * float64(p.cores)
			s.Job.CPUUsage, s.Job.MemCurrent, s.Job.MemPeak = rt.Some(uint64(used*1e6)), rt.Some(uint64(mib*(1<<19))), rt.Some(uint64(mib*(1<<20)))
			s.Job.MemLimit, s.Job.EventsOOMKill = rt.Some(uint64(limitMiB*(1<<20))), rt.Some[uint64](0)
			s.Procs = []rt.ProcessReading{{PID: 4000, Start: 7, Comm: "program", UserTicks: rt.Some(uint64(used * rt.TicksPerSecond)), SystemTicks: rt.Some[uint64](0), Threads: rt.Some(p.cores)}}
		}
		if j.outcome == rt.OutcomeOOM && i == readings-1 {
			s.Job.EventsOOMKill = rt.Some[uint64](1)
		}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	if j.suspendedSecs > 0 {
		w.Event(rt.Event{Kind: "job", Name: "sacct", Status: "ok", Detail: fmt.Sprintf("state=COMPLETED suspended_secs=%.0f", j.suspendedSecs)})
	}
	run.Apply(rt.Exit{Outcome: j.outcome, Source: "sacct", Time: start.Add(span)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	return j
}

// advise returns the jobs in a spool directory with the advice that a report gives right after the end of each.
func advise(t *testing.T, dir string) []*report.JobSummary {
	t.Helper()
	found, err := spool.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []*report.Summary
	for _, e := range found {
		s, err := summarize(e.Path)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	jobs := report.Jobs(list)
	earlier, err := Earlier(context.Background(), jobs, nil, EarlierSource{Dirs: []string{dir}, Read: summarize})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		j.Advise(report.Jobs(earlier)) // those that started before it count
	}
	return jobs
}

// requested is the number in a request: MiB, seconds or cores.
func requested(t *testing.T, request string) float64 {
	t.Helper()
	option, value, _ := strings.Cut(strings.Fields(request)[0], "=")
	if option == "--time" {
		days, clock, hasDays := strings.Cut(value, "-")
		if !hasDays {
			days, clock = "0", value
		}
		secs := 0.0
		for part := range strings.SplitSeq(clock, ":") {
			n, err := strconv.Atoi(part)
			if err != nil {
				t.Fatalf("%q: %v", request, err)
			}
			secs = secs*60 + float64(n)
		}
		n, err := strconv.Atoi(days)
		if err != nil {
			t.Fatalf("%q: %v", request, err)
		}
		return secs + float64(n)*24*3600
	}
	unit := 1.0
	if strings.HasSuffix(value, "G") {
		unit = 1024
	}
	n, err := strconv.Atoi(strings.TrimRight(value, "MG"))
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return float64(n) * unit
}

// ratios are the requests for a resource, as parts of what their programs need at most.
type ratios []float64

func (r ratios) String() string {
	if len(r) == 0 {
		return "0 | - |"
	}
	return fmt.Sprintf("%d | %.2f to %.2f |", len(r), slices.Min(r), slices.Max(r))
}

// The reports of 200 jobs of 5 users, each made when the job has just ended. No request is below the need of the
// job's program, or above twice the need. The table is in docs/advice.md.
func TestAdviceForTwoHundredJobs(t *testing.T) {
	const jobs = 200
	r := rand.New(rand.NewPCG(39, 4))
	root := t.TempDir()
	recorded := map[string]recordedJob{} // by job id
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range jobs {
		u := &users[i%len(users)]
		dir := filepath.Join(root, u.name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		id := uint64(1000 + i)
		recorded[fmt.Sprint(id)] = recordJob(t, dir, u.name, &u.jobs[r.IntN(len(u.jobs))], id, start.Add(time.Duration(i)*50*time.Hour), r)
	}
	of := map[string]map[string]ratios{}
	count := map[string]int{}
	for _, u := range users {
		of[u.name] = map[string]ratios{}
		for _, job := range advise(t, filepath.Join(root, u.name)) {
			j := recorded[job.Label]
			count[u.name]++
			for _, a := range job.Advice {
				if a.Request == "" {
					continue
				}
				need := map[string]float64{"memory": j.mib, "time": j.secs, "cores": float64(j.cores)}[a.Resource]
				ratio := requested(t, a.Request) / need
				of[u.name][a.Resource] = append(of[u.name][a.Resource], ratio)
				isPossible := j.outcome == rt.OutcomeFinished || a.Verdict == report.More // all that is known of others
				if ratio < 1 || ratio > 2 || !isPossible {
					t.Errorf("job %s of %s, %s, needs %.0f: %s is %.2f of it: %s", job.Label, u.name, j.outcome, need, a.Resource, ratio, a.String())
				}
			}
		}
	}
	var table strings.Builder
	table.WriteString("| user | jobs | --mem | of the need | --time | of the need | --cpus-per-task | of the need |\n|---|---|---|---|---|---|---|---|\n")
	for _, u := range users {
		fmt.Fprintf(&table, "| %s | %d | %s %s %s\n", u.name, count[u.name], of[u.name]["memory"], of[u.name]["time"], of[u.name]["cores"])
	}
	path := filepath.Join("..", "..", "docs", "advice.md")
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	isSame := strings.Contains(string(doc), table.String())
	if runtime.GOARCH == "amd64" && !isSame { // others round the draws differently
		t.Errorf("%s does not have this table:\n%s", path, table.String())
	}
}

func summarize(path string) (*report.Summary, error) {
	file, err := spool.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	events, err := file.Events()
	if err != nil {
		return nil, err
	}
	return report.Summarize(file.Run(), events, file.Snapshots(context.Background(), 1, 0))
}
