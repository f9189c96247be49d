package report

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// adviceOn returns the advice about a resource, an empty one if there is none.
func adviceOn(j *JobSummary, resource string) Advice {
	for _, a := range j.Advice {
		if a.Resource == resource {
			return a
		}
	}
	return Advice{}
}

// ran is a run of a job with the name solve: an hour on 4 cores of a node, with 8 GiB.
func ran(job uint64, node string, gib, usedSecs float64) *Summary {
	s := onNode(job, node, usedSecs, gib)
	s.Scope, s.Run.NumNodes, s.Run.Meta.JobName, s.Run.User = ScopeJob, u(1), "solve", "alice"
	s.Run.Start = start.Add(time.Duration(job) * time.Hour)
	s.Run.JobStart, s.Run.JobEndLimit = s.Run.Start, s.Run.Start.Add(4*time.Hour)
	s.ElapsedSecs, s.CPU.Cores, s.CPU.AllocatedSecs = rt.Some(3600.0), u(4), rt.Some(4*3600.0)
	s.CPU.UsedPct.Set(usedSecs / (4 * 3600) * 100)
	s.Memory.PeakOf, s.Memory.LimitOf = "kernel", "cgroup"
	return s
}

func advised(t *testing.T, s *Summary, earlier ...*Summary) *JobSummary {
	t.Helper()
	j := only(t, s)
	j.Advise(Jobs(earlier))
	other := only(t, s)
	other.Advise(Jobs(delivered(t, earlier)))
	if !reflect.DeepEqual(other.Advice, j.Advice) || other.AdviceReason != j.AdviceReason {
		t.Errorf("with the delivered figures of the earlier runs the advice is %+v, %q, not %+v, %q", other.Advice, other.AdviceReason, j.Advice, j.AdviceReason)
	}
	return j
}

// delivered returns what a site has of summaries: the figures that a drain delivers.
func delivered(t *testing.T, list []*Summary) (out []*Summary) {
	t.Helper()
	for _, s := range list {
		text, err := json.Marshal(s.Delivered())
		d := &DeliveredFigures{}
		if err == nil {
			err = json.Unmarshal(text, d)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d.Summary())
	}
	return out
}

// The advice covers all nodes: --mem limits each of them, and the node with the highest peak
// decides.
func TestAdviceIsOfTheWorstNode(t *testing.T) {
	small, large := ran(24, "n1", 0.05, 7200), ran(24, "n2", 0.5, 7200)
	for _, s := range []*Summary{small, large} {
		s.Run.NumNodes, s.Run.NodeList = u(2), "n[1-2]"
		s.Memory.LimitBytes, s.Memory.PeakPct = u(1500<<20), rt.Some(float64(s.Memory.PeakBytes.Or(0))/(1500<<20)*100)
	}
	j := only(t, small, large)
	j.Advise(nil)
	if a := adviceOn(j, "memory"); a.Request != "--mem=768M (or --mem-per-cpu=192M with 4 CPUs)" || !strings.Contains(a.Text, "512 MiB on one node") {
		t.Errorf("%+v", a)
	}
	// If there is no file of the other node, there is no advice, and the reason names that node.
	j = only(t, small)
	j.Advise(nil)
	if len(j.Advice) > 0 || j.AdviceReason != "1 of 2 nodes: n2 has not delivered" {
		t.Errorf("%+v, %q", j.Advice, j.AdviceReason)
	}
}

// A record with gaps and a job that did not finish give no advice, but the reason.
func TestCompletenessGatesAdvice(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		change     func(*Summary)
	}{
		{"whole", "", func(*Summary) {}},
		{"gap", "readings are missing", func(s *Summary) { s.Record.Gaps = 1 }},
		{"missed", "readings are missing", func(s *Summary) { s.Record.Missed = 2 }},
		{"cut", "the record is not complete", func(s *Summary) { s.Record.Complete = false }},
		{"running", "the job is not over", func(s *Summary) { s.Run.Ending = rt.Ending{State: rt.StateRunning} }},
		{"short", "the job was too short: less than 60 s", func(s *Summary) { s.ElapsedSecs.Set(9) }},
		{"failed", "the job did not finish, so that this run does not show what a complete one needs", func(s *Summary) { s.Run.Outcome = rt.OutcomeFailed }},
	} {
		s := ran(1, "n1", 1, 3600)
		tt.change(s)
		j := advised(t, s)
		if j.AdviceReason != tt.want || (len(j.Advice) == 0) != (tt.want != "") {
			t.Errorf("%s: reason %q, advice %+v", tt.name, j.AdviceReason, j.Advice)
		}
		var text strings.Builder
		if err := WriteText(&text, j, TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), "Advice none: "+tt.want) != (tt.want == "") {
			t.Errorf("%s: the reason is not in the text:\n%s", tt.name, text.String())
		}
	}
}

// A killed job gets a number and the reason, even if it was short or its record is incomplete.
func TestAdviceAfterAKill(t *testing.T) {
	kill := func(job uint64) *Summary {
		s := ran(job, "n1", 1, 10)
		s.Run.Outcome, s.Memory.OOMKills, s.ElapsedSecs, s.Record.Complete = rt.OutcomeOOM, u(1), rt.Some(3.3), false
		s.Memory.LimitBytes, s.Memory.PeakBytes = u(1<<30), u(1<<30)
		s.OOM = []OOMKill{{LimitBytes: u(1 << 30), GrowthBytesPerSec: rt.Some(20.0 * (1 << 20)), Biggest: []Process{{Comm: "hungry", RSSBytes: u(900 << 20)}}}}
		return s
	}
	a := adviceOn(advised(t, kill(5)), "memory")
	if want := "processes were killed at the limit of 1.00 GiB (largest process hungry with 900 MiB, memory grew by 20.0 MiB a second); " +
		"how much the job needs is not known: this is twice the limit"; a.Text != want || a.Request != "--mem=2G (or --mem-per-cpu=512M with 4 CPUs)" || a.Verdict != More {
		t.Errorf("%+v", a)
	}
	// Twice the limit is at most what the node has.
	onNodeOf := func(gib float64) Advice {
		s := kill(5)
		s.Node.MemoryBytes = u(uint64(gib * (1 << 30)))
		return adviceOn(advised(t, s), "memory")
	}
	if a := onNodeOf(1.5); a.Request != "--mem=0" || !strings.Contains(a.Text, "all memory of the node, 1.50 GiB") {
		t.Errorf("on a node of 1.5 GiB: %+v", a)
	}
	if a := onNodeOf(1.05); a.Request != "" || !strings.Contains(a.Text, "use a node with more") {
		t.Errorf("on a node of 1.05 GiB: %+v", a)
	}
	if a := onNodeOf(2); a.Request != "--mem=2G (or --mem-per-cpu=512M with 4 CPUs)" {
		t.Errorf("on a node of 2 GiB: %+v", a)
	}
	// Runs with another request are of something else, and twice the limit is at most twice the need.
	a = adviceOn(advised(t, kill(5), ran(3, "n1", 5, 10), ran(4, "n1", 6, 10)), "memory")
	if a.Request != "--mem=2G (or --mem-per-cpu=512M with 4 CPUs)" || a.RiskPct.Valid() || a.Runs != 1 {
		t.Errorf("with earlier runs: %+v", a)
	}
	// Only accounting reports the kill.
	s := kill(5)
	s.Memory.OOMKills, s.OOM = u(0), nil
	if a := adviceOn(advised(t, s), "memory"); a.Request == "" {
		t.Errorf("from accounting: %+v", a)
	}
	// A later run gets no request below the limit at which an earlier run was killed.
	later := ran(6, "n1", 0.5, 10)
	later.Memory.LimitBytes = u(2 << 30)
	if a := adviceOn(advised(t, later, kill(5)), "memory"); a.Request != "" || a.Verdict != NotKnown || !strings.Contains(a.Text, "an earlier run was killed at 1.00 GiB") {
		t.Errorf("after a kill: %+v", a)
	}
}

// After a second kill the request is neither a limit at which an earlier run was killed, nor below
// a measured peak.
func TestAdviceAfterSeveralKills(t *testing.T) {
	kill := func(job, limitGiB uint64) *Summary {
		s := ran(job, "n1", float64(limitGiB), 10)
		s.Run.Outcome, s.Memory.LimitBytes = rt.OutcomeOOM, u(limitGiB<<30) // only accounting knows
		return s
	}
	a := adviceOn(advised(t, kill(5, 1), kill(4, 2)), "memory")
	if a.Request != "--mem=4G (or --mem-per-cpu=1G with 4 CPUs)" || !strings.Contains(a.Text, "at the limit of 1.00 GiB, and in an earlier run at the limit of 2.00 GiB") {
		t.Errorf("after two kills: %+v", a)
	}
	later := ran(6, "n1", 0.5, 10)
	later.Memory.LimitBytes = u(2 << 30)
	if a := adviceOn(advised(t, later, kill(5, 1)), "memory"); a.Request != "" || a.RiskPct.Valid() {
		t.Errorf("a later run: %+v", a)
	}
}

// A request for memory is not below the peak of a run that did not finish, if that run is like this one.
func TestAdviceCoversEachPeak(t *testing.T) {
	for _, tt := range []struct {
		gib, failed float64
		verdict     Verdict
		request     string
	}{
		{1, 0.5, Less, "--mem=1536M (or --mem-per-cpu=384M with 4 CPUs)"},
		{1, 1.25, Less, "--mem=1920M (or --mem-per-cpu=480M with 4 CPUs)"},
		{1, 10, Less, "--mem=1536M (or --mem-per-cpu=384M with 4 CPUs)"}, // it is not like this one
		{5, 7, WellSized, ""},
		{5, 7.4, WellSized, ""}, // this one was far below its request
		{7, 9, More, "--mem=14G (or --mem-per-cpu=3584M with 4 CPUs)"},
	} {
		failed := ran(3, "n1", tt.failed, 3600)
		failed.Run.Outcome = rt.OutcomeFailed
		a := adviceOn(advised(t, ran(5, "n1", tt.gib, 14000), failed), "memory")
		isCovered := tt.failed > tt.gib && tt.failed < 10
		if a.Verdict != tt.verdict || a.Request != tt.request || a.Runs != 1 || a.RiskPct.Valid() == isCovered ||
			strings.Contains(fmt.Sprint(a.Explain), "a run that did not finish had a peak of") != isCovered {
			t.Errorf("%v GiB, failed with %v GiB: %+v", tt.gib, tt.failed, a)
		}
	}
}

// If Slurm stopped other runs, the runs that finished in time do not show that the next one
// finishes.
func TestTimeAfterEarlierTimeLimits(t *testing.T) {
	for _, tt := range []struct {
		outcome rt.Outcome
		elapsed float64
		limit   time.Duration
		request string
	}{
		{rt.OutcomeTimeout, 7200, 2 * time.Hour, ""},
		{rt.OutcomeTimeout, 60, 2 * time.Hour, ""}, // tracked late
		{rt.OutcomeTerminated, 7200, 0, ""},
		{rt.OutcomeTerminated, 1800, 4 * time.Hour, "--time=01:30:00"},
	} {
		s := ran(4, "n1", 1, 100)
		s.Run.Outcome, s.ElapsedSecs, s.Run.JobEndLimit = tt.outcome, rt.Some(tt.elapsed), s.Run.Start.Add(tt.limit)
		a := adviceOn(advised(t, ran(5, "n1", 1, 100), s), "time")
		if a.Request != tt.request || a.RiskPct.Valid() || strings.Contains(a.Text, "an earlier run was stopped after 02:00:00") != (tt.request == "") {
			t.Errorf("%+v: %+v", tt, a)
		}
	}
}

func TestAdviceAfterATimeLimit(t *testing.T) {
	s := ran(5, "n1", 1, 10)
	s.Run.Outcome = rt.OutcomeTimeout
	if a := adviceOn(advised(t, s), "time"); a.Request != "--time=08:00:00" || a.Verdict != More {
		t.Errorf("%+v", a)
	}
	s.Run.JobEndLimit = time.Time{}
	if a := adviceOn(advised(t, s), "time"); a.Request != "" || a.Verdict != More {
		t.Errorf("the limit is not known: %+v", a)
	}
}

// The sample is the user's earlier runs of the same job with the same nodes and cores.
func TestAdviceUsesEarlierRuns(t *testing.T) {
	others := func(change func(*Summary)) *Summary {
		s := ran(1, "n1", 7, 3600)
		change(s)
		return s
	}
	earlier := []*Summary{
		ran(2, "n1", 3, 3600), ran(3, "n2", 2, 3600), ran(4, "n1", 2.5, 3600),
		others(func(s *Summary) { s.Run.Meta.JobName = "other" }),
		others(func(s *Summary) { s.Run.User = "bob" }),
		others(func(s *Summary) { s.CPU.Cores = u(8) }),
		others(func(s *Summary) { s.Run.Cluster = "other" }),
		others(func(s *Summary) { s.Run.Partition = "other" }),
		others(func(s *Summary) { s.Run.Account = "other" }),
		others(func(s *Summary) { s.Run.WorkDir = "/other" }),
		others(func(s *Summary) { s.Run.GPUs = "0" }),
		others(func(s *Summary) { s.Memory.LimitBytes = u(17 << 30) }),
		others(func(s *Summary) { s.Memory.LimitBytes = u(8<<30/2 - 1) }),
		others(func(s *Summary) { s.Run.JobEndLimit = s.Run.Start.Add(9 * time.Hour) }),
		others(func(s *Summary) { s.Run.Outcome, s.Memory.PeakBytes = rt.OutcomeFailed, u(1<<30) }),
		others(func(s *Summary) { s.Record.Complete, s.Memory.PeakBytes = false, u(1<<30) }),
		others(func(s *Summary) {
			s.Run.JobID, s.Label, s.Run.Start = u(9), "9", start.Add(9*time.Hour)
			s.Run.JobStart = s.Run.Start
		}),
	}
	for i, s := range earlier[3:] { // jobs of their own
		if s.Label != "9" {
			s.Run.JobID, s.Label = u(100+uint64(i)), fmt.Sprint(100+i)
		}
	}
	j := advised(t, ran(5, "n1", 2.2, 3600), earlier...)
	a := adviceOn(j, "memory")
	if a.Runs != 4 || a.Request != "--mem=3584M (or --mem-per-cpu=896M with 4 CPUs)" || a.RiskPct != rt.Some(20.0) || a.MarginPct != rt.Some(12.5) {
		t.Errorf("%+v", a)
	}
	var text strings.Builder
	if err := WriteText(&text, j, TextOptions{Zone: time.UTC, Explain: true}); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{"the peak was 2.20 GiB of 8.00 GiB (from 4 runs with up to 3.00 GiB)", "it needs more than the highest with a probability of at most 1/5 (20.0 %)", "sample: 4 runs with a complete record and the same user", "peak of a node: highest 3.00 GiB", "margin: 12 %"} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	// A name that any job can have does not define a sample.
	for _, s := range append(earlier, j.Runs[0]) {
		s.Run.Meta.JobName = "wrap"
	}
	if a := adviceOn(advised(t, j.Runs[0], earlier...), "memory"); a.Runs != 1 {
		t.Errorf("%+v", a)
	}
	// With a trend there is no number and no promise.
	a = adviceOn(advised(t, ran(5, "n1", 4, 3600), ran(1, "n1", 1, 3600), ran(2, "n1", 2, 3600), ran(3, "n1", 3, 3600)), "memory")
	if a.Request != "" || a.RiskPct.Valid() || !strings.Contains(a.Text, "rises from run to run") {
		t.Errorf("with a trend: %+v", a)
	}
}

func TestMemoryVerdicts(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*Memory)
		verdict Verdict
		text    string
	}{
		{"well sized", func(m *Memory) { m.PeakBytes, m.PeakPct = u(6<<30), rt.Some(75.0) }, WellSized, "75 % of 8.00 GiB"},
		{"nearly full", func(m *Memory) { m.PeakBytes, m.PeakPct, m.AnonymousBytes = u(79<<30/10), rt.Some(98.8), u(75<<30/10) }, More, "nearly all"},
		{"full of cache", func(m *Memory) { m.PeakBytes, m.PeakPct, m.AnonymousBytes = u(8<<30), rt.Some(100.0), u(1<<30) }, NotKnown, "file cache filled the limit"},
		{"readings", func(m *Memory) { m.PeakOf = "readings" }, NotKnown, "no peak"},
		{"no limit", func(m *Memory) { m.LimitOf = "node" }, NotKnown, "no limit of its own"},
	} {
		s := ran(5, "n1", 1, 14000)
		tt.change(&s.Memory)
		if a := adviceOn(advised(t, s), "memory"); a.Verdict != tt.verdict || !strings.Contains(a.Text, tt.text) || (a.Request != "") != (tt.verdict == More) {
			t.Errorf("%s: %+v", tt.name, a)
		}
	}
}

// A mean over an interval is not a peak. 8 cores that are busy for 2 s of each 10 s are not "2 of 8 cores".
func TestCoresFromWhatIsKnown(t *testing.T) {
	thread := func(secs float64, threads uint64) ThreadUse {
		return ThreadUse{Secs: secs, Threads: threads}
	}
	task := func(n uint64, secs float64) Task {
		return Task{Task: n, Figures: Figures{Used: Used{UsedSecs: rt.Some(secs)}}}
	}
	for _, tt := range []struct {
		name    string
		used    float64 // of an hour
		cores   uint64
		threads []ThreadUse
		tasks   []Task
		request string
		verdict Verdict
	}{
		{"bursts on 8 cores", 5760, 8, []ThreadUse{thread(5760, 8)}, nil, "", NotKnown},
		{"hardly anything", 100, 8, nil, nil, "--cpus-per-task=1 --mem=8G (or --ntasks-per-node=1)", Less},
		{"one thread", 3600, 4, []ThreadUse{thread(3590, 1)}, nil, "--cpus-per-task=1 --mem=8G (or --ntasks-per-node=1)", Less},
		{"one thread, no processes were read", 3600, 4, nil, nil, "", NotKnown},
		{"two of one thread", 7100, 4, []ThreadUse{thread(3550, 1), thread(3500, 1)}, nil, "--cpus-per-task=2 --mem=8G (or --ntasks-per-node=2)", Less},
		{"all", 14000, 4, []ThreadUse{thread(14000, 4)}, nil, "", WellSized},
		{"one core", 3000, 1, nil, nil, "", WellSized},
		{"one idle core", 300, 1, nil, nil, "", Least},
		{"two tasks of one thread", 7000, 8, []ThreadUse{{task: u(0), Secs: 3500, Threads: 1}, {task: u(1), Secs: 3480, Threads: 1}}, []Task{task(0, 3505), task(1, 3485)}, "--cpus-per-task=1 --mem=8G", Less},
		{"idle tasks of one core each", 100, 2, nil, []Task{task(0, 50), task(1, 50)}, "", NotKnown},
		{"two tasks of four threads", 7000, 8, []ThreadUse{{task: u(0), Secs: 3500, Threads: 4}, {task: u(1), Secs: 3480, Threads: 4}}, []Task{task(0, 3505), task(1, 3485)}, "", NotKnown},
	} {
		s := ran(5, "n1", 6, tt.used)
		s.CPU.Cores, s.CPU.AllocatedSecs, s.CPU.UsedPct = u(tt.cores), rt.Some(3600*float64(tt.cores)), rt.Some(tt.used/36/float64(tt.cores))
		s.threads = tt.threads
		if tt.tasks != nil {
			s.Steps = []Step{{Step: "0", Figures: Figures{Used: Used{UsedSecs: rt.Some(tt.used)}}, Tasks: tt.tasks}}
		}
		a := adviceOn(advised(t, s), "cores")
		if a.Request != tt.request || a.Verdict != tt.verdict {
			t.Errorf("%s: %+v", tt.name, a)
		}
		if isNamed := strings.Contains(a.Text, "--ntasks"); isNamed != strings.HasPrefix(tt.name, "idle tasks") {
			t.Errorf("%s: %s", tt.name, a.Text)
		}
		if strings.Contains(a.Text, "never more") {
			t.Errorf("%s: a mean is called a peak: %s", tt.name, a.Text)
		}
	}
}

// Of a mean only the part above all cores but one bounds the time in which all were busy. The last
// interval of a run can be too short for that.
func TestAllCoresBusy(t *testing.T) {
	points := []point{{0, 10, rt.Some(0.5), u(1)}, {10, 20, rt.Some(3.5), u(1)}, {20, 30, rt.None[float64](), u(1)}, {30, 40, rt.Some(4.0), u(1)}, {40, 40.5, rt.Some(9.0), u(1)}}
	s := ran(5, "n1", 6, 7200)
	s.allBusySecs = allBusySecs(points, 4)
	want := 10*(0.99*3.5-3) + 10*(0.99*4-3)
	if a := adviceOn(advised(t, s), "cores"); math.Abs(s.allBusySecs-want) > 1e-9 || a.Verdict != WellSized || !strings.HasSuffix(a.Text, ", and all cores were busy at once for at least 14.25 s") {
		t.Errorf("%v s: %+v", s.allBusySecs, a)
	}
	if secs := allBusySecs([]point{{0, 3600, rt.Some(63.0), u(1)}}, 64); secs != 0 {
		t.Errorf("63 of 64 cores were busy: %v s", secs)
	}
	if secs := allBusySecs(points, 0); secs != 0 {
		t.Errorf("without a number of cores: %v s", secs)
	}
}

// A request that cannot lower the limit is not advised again in the next report.
func TestLowMemoryIsAdvisedOnce(t *testing.T) {
	for _, tt := range []struct {
		limit, alloc uint64 // MiB; 0: not known
		request      string
	}{{100, 0, "--mem=16M"}, {30, 16, ""}, {30, 0, ""}, {64, 16, ""}, {64, 64, "--mem=16M"}} {
		s := ran(5, "n1", 8.0/1024, 3500)
		s.CPU.Cores, s.CPU.AllocatedSecs, s.CPU.UsedPct = u(1), rt.Some(3600.0), rt.Some(97.0)
		s.Memory.LimitBytes, s.Run.AllocMem = u(tt.limit<<20), u(tt.alloc<<20)
		if a := adviceOn(advised(t, s), "memory"); a.Request != tt.request || (a.Verdict == WellSized) != (tt.request == "") {
			t.Errorf("%+v: %+v", tt, a)
		}
	}
}

// A run that is no job of Slurm has no advice, and the reason.
func TestNoAdviceOutsideSlurm(t *testing.T) {
	for scope, want := range map[Scope]string{ScopeTree: "it ran outside Slurm, so that nothing was requested", ScopeNode: "the whole node was recorded, not a job"} {
		s := ran(5, "n1", 1, 3600)
		s.Scope, s.Run.JobID, s.Label = scope, rt.None[uint64](), "-"
		if j := advised(t, s); len(j.Advice) > 0 || j.AdviceReason != want {
			t.Errorf("%s: %+v, %q", scope, j.Advice, j.AdviceReason)
		}
		s.Run.JobID.Set(5)
		if j := advised(t, s); j.AdviceReason != "the job's cgroup was not read" {
			t.Errorf("%s: %q", scope, j.AdviceReason)
		}
		s.Partial = "https://rt.example.org" // where only the figures so far are
		if j := advised(t, s); j.AdviceReason != "its readings have not arrived yet" {
			t.Errorf("%s: %q", scope, j.AdviceReason)
		}
	}
}

// A run that was not read at its end gives no advice and is in no sample: its CPU time and peak are lower bounds.
func TestAdviceOfALowerBound(t *testing.T) {
	s := ran(5, "n1", 1, 100)
	s.CPU.UsedMark = AtLeast
	if j := advised(t, s); len(j.Advice) > 0 || j.AdviceReason != "the end of the job was not read" {
		t.Errorf("%+v, %q", j.Advice, j.AdviceReason)
	}
	if a := adviceOn(advised(t, ran(6, "n1", 1, 100), s), "memory"); a.Runs != 1 {
		t.Errorf("as an earlier run: %+v", a)
	}
}

// A large number of cores in a damaged file does not make the loop over the cores longer.
func TestCoresOfADamagedFile(t *testing.T) {
	s := ran(5, "n1", 6, 1e12)
	s.CPU.Cores = u(1<<16 + 1)
	if a := adviceOn(advised(t, s), "cores"); a.Verdict != NotKnown || a.Text != "what was used of the allocated cores is not known" {
		t.Errorf("%+v", a)
	}
}

// Fewer cores with --mem-per-cpu are less memory: the advice gives both, in each of its forms.
func TestFewerCoresKeepTheMemory(t *testing.T) {
	for name, change := range map[string]func(s *Summary){
		"well sized": func(*Summary) {},
		"full of cache": func(s *Summary) {
			s.Memory.PeakBytes, s.Memory.PeakPct, s.Memory.AnonymousBytes = u(8<<30), rt.Some(100.0), u(1<<30)
		},
		"no peak": func(s *Summary) { s.Memory.PeakOf = "readings" },
	} {
		s := ran(5, "n1", 6, 100)
		change(s)
		j := advised(t, s)
		var oneLine strings.Builder
		if err := WriteOneLine(&oneLine, j, TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		const want = "--cpus-per-task=1 --mem=8G --time="
		isNamed := strings.HasPrefix(j.Change(), "request "+want) && strings.Contains(oneLine.String(), "; advice: "+want)
		if !isNamed {
			t.Errorf("%s: %q, %s", name, j.Change(), &oneLine)
		}
	}
	s := ran(5, "n1", 6, 100)
	s.Memory.LimitOf = "node"
	if j := advised(t, s); strings.Contains(j.Change(), "--mem") {
		t.Errorf("without a limit: %s", j.Change())
	}
	s = ran(5, "n1", 6, 100)
	if a := adviceOn(advised(t, s), "memory"); a.Verdict != WellSized || !strings.Contains(a.Text, "if you use --mem-per-cpu and 1 CPU, request 8G per CPU") {
		t.Errorf("%+v", a)
	}
	s = ran(5, "n1", 1, 100)
	if a := adviceOn(advised(t, s), "memory"); a.Request != "--mem=1536M (or --mem-per-cpu=1536M with 1 CPU)" {
		t.Errorf("%+v", a)
	}
	if a := adviceOn(advised(t, s), "cores"); a.Request != "--cpus-per-task=1 (or --ntasks-per-node=1)" {
		t.Errorf("%+v", a)
	}
}

func TestTimeVerdicts(t *testing.T) {
	for _, tt := range []struct {
		limit   time.Duration
		verdict Verdict
		request string
	}{
		{4 * time.Hour, Less, "--time=01:30:00"}, {95 * time.Minute, WellSized, ""}, {61 * time.Minute, More, "--time=01:30:00"}, {0, NotKnown, "--time=01:30:00"},
	} {
		s := ran(5, "n1", 1, 100)
		if s.Run.JobEndLimit = s.Run.Start.Add(tt.limit); tt.limit == 0 {
			s.Run.JobEndLimit = time.Time{}
		}
		if a := adviceOn(advised(t, s), "time"); a.Verdict != tt.verdict || a.Request != tt.request {
			t.Errorf("%v: %+v", tt.limit, a)
		}
	}
}

func TestRounding(t *testing.T) {
	for bytes, want := range map[float64]string{1: "16M", 17 << 20: "32M", 300 << 20: "320M", 1 << 30: "1G", 1.3 * (1 << 30): "1408M", 100 * (1 << 30): "104G"} {
		if got := memoryArg(roundMemory(bytes)); got != want {
			t.Errorf("%v bytes: %s, want %s", bytes, got, want)
		}
	}
	for secs, want := range map[float64]string{61: "00:02:00", 1801: "00:35:00", 4*3600 + 1: "04:15:00", 25*3600 + 1: "1-02:00:00"} {
		if got := Clock(rt.Some(roundTime(secs))); got != want {
			t.Errorf("%v s: %s, want %s", secs, got, want)
		}
	}
}

// A job that works on one of its nodes only: the advice names the others.
func TestAdviceNamesIdleNodes(t *testing.T) {
	busy, idle := ran(24, "n1", 1, 7200), ran(24, "n2", 1, 10)
	for _, s := range []*Summary{busy, idle} {
		s.Run.NumNodes, s.Run.NodeList = u(2), "n[1-2]"
	}
	j := only(t, busy, idle)
	j.Advise(nil)
	if a := adviceOn(j, "nodes"); a.Text != "on 1 of 2 less than 1 % of the cores were used (n2): check that the program uses several nodes" {
		t.Errorf("%+v", a)
	}
	busy.CPU.UsedPct.Set(0.5) // then the job waited, and not for one of its nodes
	j = only(t, busy, idle)
	j.Advise(nil)
	if a := adviceOn(j, "nodes"); a.Text != "" {
		t.Errorf("of an idle job: %+v", a)
	}
}

// Tasks that differ by little of the run, and Slurm's own step, are not worth an advice.
func TestAdviceOnUnequalTasks(t *testing.T) {
	for name, tt := range map[string]struct {
		step   string
		secs   [2]float64
		advice bool
	}{
		"unequal": {"0", [2]float64{3000, 300}, true}, "equal": {"0", [2]float64{3000, 2900}, false}, "short": {"0", [2]float64{30, 3}, false}, "extern": {"extern", [2]float64{0.01, 0.001}, false},
	} {
		s := ran(5, "n1", 1, 3600)
		sum := tt.secs[0] + tt.secs[1]
		s.Steps = []Step{{Step: tt.step, Figures: Figures{Used: Used{UsedSecs: rt.Some(sum)}}, Tasks: []Task{
			{Task: 0, Figures: Figures{Used: Used{UsedSecs: rt.Some(tt.secs[0])}}}, {Task: 1, Figures: Figures{Used: Used{UsedSecs: rt.Some(tt.secs[1])}}},
		}}}
		if a := adviceOn(advised(t, s), "tasks"); (a.Text != "") != tt.advice {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
