package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// TestOOMKillBetweenWalks: the biggest processes are from the last look at them, however many readings ago. The time
// is when the kill was noticed.
func TestOOMKillBetweenWalks(t *testing.T) {
	list := jobSnapshots()[:10]
	for i := range list {
		list[i].Job.EventsOOMKill = u(0)
	}
	process := func(pid, rss uint64) rt.ProcessReading {
		return rt.ProcessReading{PID: pid, Comm: "solve", RSS: u(rss)}
	}
	list[3].Procs = []rt.ProcessReading{process(7, 1000), process(8, 5000)}
	for i, comm := range []string{"sleep", "slurmstepd"} { // Slurm's own
		list[3].Procs = append(list[3].Procs, rt.ProcessReading{PID: 100 + uint64(i), Comm: comm, Step: "extern", RSS: u(1 << 20)})
	}
	list[9].Job.EventsOOMKill = u(1)
	list[9].Procs = []rt.ProcessReading{process(7, 9000), process(9, 90000)} // 9 came after it
	noticed := time.Unix(0, list[9].Wall).Add(-300 * time.Millisecond).UTC()
	events := []rt.Event{
		{Time: noticed.Add(-time.Hour), Kind: "job", Name: "oom_kill", Status: "killed", Detail: "another one"},
		{Time: noticed, Kind: "job", Name: "oom_kill", Status: "killed", Detail: "killed=1 total=1"},
	}
	s := summarized(t, example{run: slurmRun(), events: events, snapshots: list})
	if len(s.OOM) != 1 || !s.OOM[0].Time.Equal(noticed) {
		t.Fatalf("%+v", s.OOM)
	}
	big := s.OOM[0].Biggest
	if len(big) != 2 || big[0].PID != 7 || big[0].RSSBytes != u(9000) || big[1].PID != 8 || big[1].RSSBytes != u(5000) {
		t.Errorf("%+v", big)
	}
	for _, p := range s.Processes.Top {
		if p.Step == "extern" {
			t.Errorf("Slurm's own process is among the job's: %+v", p)
		}
	}
	if age := s.OOM[0].BiggestAgeSecs; age.Valid() {
		t.Errorf("the largest was read with the kill, and its age is %v", age)
	}
	list[9].Procs = nil
	s = summarized(t, example{run: slurmRun(), events: events, snapshots: list})
	if age := s.OOM[0].BiggestAgeSecs.Or(0); math.Abs(age-5.7) > 0.001 {
		t.Errorf("age of the processes %v, want 5.7 s", age)
	}
}

// A kill after the last reading is not counted as none.
func TestOOMKillAfterTheLastReading(t *testing.T) {
	list := jobSnapshots()[:10]
	for i := range list {
		list[i].Job.EventsOOMKill = u(0)
	}
	run := slurmRun()
	run.Outcome = rt.OutcomeOOM
	s := summarized(t, example{run: run, snapshots: list})
	if s.Memory.OOMKills.Valid() || s.Memory.OOMReason != "the kill was after the last reading" {
		t.Errorf("%v kills, %q", s.Memory.OOMKills, s.Memory.OOMReason)
	}
	run.NumNodes = u(2)
	if s := summarized(t, example{run: run, snapshots: list}); s.Memory.OOMKills != u(0) {
		t.Errorf("%v kills on a node of two", s.Memory.OOMKills)
	}
}

// On a narrow terminal the outcome, the figures of an OOM kill and of the readings are broken between
// words, not cut.
func TestNarrowTerminal(t *testing.T) {
	s := summarized(t, richExamples()[3])
	var text strings.Builder
	if err := WriteText(&text, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC, Width: 44}); err != nil {
		t.Fatal(err)
	}
	words := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{"6.2 % 12.00 s of 00:03:12", "small[31] task 0 4.00 MiB, 1.00 s earlier", "growing by 19.0 MiB a second", "Outcome oom (killed for memory)"} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}
