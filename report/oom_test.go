package report

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// TestOOMKillBetweenWalks: the biggest processes are those of the last look at them,
// however many readings ago that was, and the time is when the kill was noticed.
func TestOOMKillBetweenWalks(t *testing.T) {
	list := jobSnapshots()[:10]
	for i := range list {
		list[i].Job.EventsOOMKill = u(0)
	}
	process := func(pid, rss uint64) rt.ProcessReading {
		return rt.ProcessReading{PID: pid, Comm: "solve", RSS: u(rss)}
	}
	list[3].Procs = []rt.ProcessReading{process(7, 1000), process(8, 5000)}
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
}
