package drain

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// liveSite is a receiver of live reports, which answers with a status.
type liveSite struct {
	status int
	seen   []string // nodes with the numbers of their jobs
	bytes  int      // of the last report
}

func (s *liveSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var l site.LiveReport
	text, err := io.ReadAll(r.Body)
	if err == nil && r.URL.Path == "/live" {
		err = json.Unmarshal(text, &l)
		s.bytes = len(text)
		line := l.Cluster + "/" + l.Node + ":"
		for _, run := range l.Runs {
			line += fmt.Sprintf(" %d %s", run.Run.JobID.Or(0), run.Run.State)
		}
		s.seen = append(s.seen, line)
	}
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, `{"wanted":["x"],"detail":"no"}`)
}

// A report has the running runs of this host, and once that there is none any more. A failure changes nothing about the
// drain, and a receiver that takes none any more is not asked again.
func TestLiveReport(t *testing.T) {
	s := newSource(t)
	receiver := &liveSite{status: http.StatusOK}
	server := httptest.NewServer(receiver)
	defer server.Close()
	client, err := sentinel.New(sentinel.Config{HTTP: server.Client(), Endpoint: server.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	dir := &Directory{Dir: s.Spool, StateDir: s.StateDir, Live: &Live{To: client}}
	drain := func(want string, isErr bool) {
		t.Helper()
		receiver.seen = nil
		l := &locked{Directory: dir, endpoint: client.Endpoint()}
		entries, err := l.Runs(t.Context())
		if err != nil || slices.ContainsFunc(entries, func(e upload.Entry) bool { return e.Wanted }) {
			t.Fatalf("%v, %v", entries, err)
		}
		if err := l.unlock(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(receiver.seen)
		if got := strings.Join(receiver.seen, "; "); got != want || (l.live.err != nil) != isErr {
			t.Errorf("%q, want %q; %v", got, want, l.live.err)
		}
		d, err := readDrains(s.Spool)
		if err != nil {
			t.Fatal(err)
		}
		d = d.addDrain(&Drained{}, true, &site.NodeState{Cluster: "alps", Node: "n1"}, time.Now())
		d.addLive(&l.live)
		if err := d.writeFile(s.Spool); err != nil {
			t.Fatal(err)
		}
	}
	w := newRun(t, s, 0, false)
	newRun(t, s, 1, true) // ended long ago
	drain("", false)      // the receiver has announced nothing
	takes := func(change func(*drains)) {
		t.Helper()
		d, err := readDrains(s.Spool)
		if err != nil {
			t.Fatal(err)
		}
		d.TakesLive, d.Receiver = true, client.Endpoint()
		change(&d)
		if err := d.writeFile(s.Spool); err != nil {
			t.Fatal(err)
		}
	}
	takes(func(*drains) {})
	drain("alps/n1: 1 running", false)
	dir.Live.Interval = time.Hour
	drain("", false)
	dir.Live.Interval = 0
	list, err := spool.List(s.Spool)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	run := rt.Run{Identity: list[0].Run.Identity, Ending: rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeFinished, End: time.Now()}}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	drain("alps/n1: 1 ended", false) // it waits for its delivery
	takes(func(d *drains) { d.LiveNodes = append(d.LiveNodes, nodeName{"alps", "n2"}) })
	drain("alps/n1: 1 ended; alps/n2:", false)
	takes(func(d *drains) { d.Host, d.LiveNodes = "another host", []nodeName{{"alps", "n3"}} })
	drain("alps/n1: 1 ended", false) // this is a copy of another spool
	receiver.status = http.StatusServiceUnavailable
	drain("alps/n1: 1 ended", true)
	receiver.status = http.StatusNotFound
	drain("alps/n1: 1 ended", true)
	drain("", false)
	takes(func(*drains) {})
	dir.Live = nil // drain.live = false
	drain("", false)
}

// The jobs of one user do not displace the running jobs of others from a report, which is as large as receivers take.
func TestLiveReportFits(t *testing.T) {
	receiver := &liveSite{status: http.StatusOK}
	server := httptest.NewServer(receiver)
	defer server.Close()
	client, err := sentinel.New(sentinel.Config{HTTP: server.Client(), Endpoint: server.URL, Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(-time.Hour)
	send := func(names int, state rt.State) liveResult {
		r := &liveReport{to: client, nodes: map[nodeName][]liveRun{}, files: map[string]string{}}
		for i := range names + 1 {
			run := rt.Run{Identity: rt.Identity{Node: "n1", JobID: rt.Some(uint64(i)), Start: begin.Add(time.Duration(i) * time.Second)}}
			run.State, run.Meta.JobName = rt.StateRunning, "md"
			if i > 0 { // the jobs of the user are newer
				run.State, run.Meta.JobName = state, "é"+strings.Repeat("<", 1000)
			}
			r.addFigures((&report.Summary{Run: run}).Figures())
		}
		receiver.seen = nil
		return r.send(t.Context())
	}
	for _, c := range []struct {
		names int
		state rt.State
		left  bool
	}{{170, rt.StateRunning, false}, {2000, rt.StateEnded, true}} {
		done := send(c.names, c.state)
		text := strings.Join(receiver.seen, ";") + " "
		isLeft := strings.HasPrefix(done.text(), fmt.Sprintf("%d runs ", c.names+1-strings.Count(text, "ed ")-strings.Count(text, "ing ")))
		if done.err != nil || receiver.bytes > site.MaxLiveReport || !strings.Contains(text, " 0 running") || isLeft != c.left {
			t.Errorf("%d names: %d bytes, %q, %v; %.200s", c.names, receiver.bytes, done.text(), done.err, text)
		}
	}
}
