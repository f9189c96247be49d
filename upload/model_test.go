package upload_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/upload"
)

// answers are the classes of answers to a request. A lost answer comes after the receiver has
// acted; any other answer replaces the action.
var answers = []struct {
	name string
	err  func() error
	acts bool // the receiver has acted
}{
	{"2xx", nil, true},
	{"reset before", lost, false},
	{"reset after", lost, true},
	{"502 after", func() error { return fault(upload.Temporary, 502, 0) }, true},
	{"timeout after", func() error { return fault(upload.Temporary, 504, 0) }, true},
	{"404 of the API", func() error { return own(404) }, false},
	{"404 of a gateway", gateway, false},
	{"404 of a gateway after", gateway, true},
	{"409", func() error { return own(409) }, false},
	{"410", func() error { return own(410) }, false},
	{"422", func() error { return own(422) }, false},
	{"401", func() error { return fault(upload.Unauthorised, 401, 0) }, false},
	{"429", func() error { return fault(upload.Temporary, 429, 0) }, false},
	{"500", func() error { return fault(upload.Temporary, 500, 0) }, false},
	{"503", func() error { return fault(upload.Temporary, 503, 0) }, false},
}

// states are the states of a run in docs/guarantees.md. A drain reaches each state by a failure at
// a request, before or after the receiver acts. In the state lost, which no answer shows, the
// receiver has lost the run.
var states = []struct {
	name, fails string
	acts        bool
	restored    bool // the receiver, from a backup that has the run and none of its objects
}{
	{"new", "", false, false},
	{"intended", "register", false, false},
	{"intended, registered", "register", true, false},
	{"registered", "put", false, false},
	{"registered, uploaded", "put", true, false},
	{"closing, open", "finish", false, false},
	{"closing, closed", "finish", true, false},
	// These exist only if the receiver takes records.
	{"uploaded", "record", false, false},
	{"uploaded, with a record", "record", true, false},
	{"uploaded, restored", "record", false, true},
	{"uploaded, with a record, restored", "record", true, true},
}

// path is one path through the model.
type path struct {
	takes         bool // the receiver takes records
	state, answer int
	request       string // that gets the answer
	stays         bool   // all such requests of two drains get it
	at            int    // the call at which the drain is killed, 0: never
	late          bool   // the call takes effect
	closedAs      int
}

func (p path) String() string {
	return fmt.Sprintf("%s, %s gets %s (always %v), killed at call %d (late %v), closed runs are %d, records %v",
		states[p.state].name, p.request, answers[p.answer].name, p.stays, p.at, p.late, p.closedAs, p.takes)
}

// TestModelOfDelivery checks the table of docs/guarantees.md: each state with each class of answer
// to each request. It also tries a crash before and after each write and each request. Later drains
// to a strict receiver without faults deliver the run once, and report each problem.
func TestModelOfDelivery(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // each drain makes the buffers of a worker
	first, paths := random.Below(t, crashStep()), 0
	synctest.Test(t, func(t *testing.T) {
		for state := range states {
			for answer := range answers {
				if testing.Short() && (first+state+answer)%4 != 0 { // make check has all pairs
					continue
				}
				for _, request := range []string{"register", "refresh", "put", "finish"} {
					if states[state].fails != "record" {
						paths += checkCrashes(t, path{state: state, answer: answer, request: request}, first+state+answer)
					}
				}
				for _, request := range []string{"refresh", "record", "finish"} { // the others come before the record
					paths += checkCrashes(t, path{takes: true, state: state, answer: answer, request: request}, first+state+answer)
				}
			}
		}
	})
	t.Logf("%d paths", paths)
}

// checkCrashes checks a path without a crash, and then with a crash at each call. It does not
// repeat the paths of an answer to a request that is not sent in the state. In the short form first determines at which
// calls the crashes are.
func checkCrashes(t *testing.T, p path, first int) (paths int) {
	t.Helper()
	styles := []int{404, 409, 410, 422}
	if p.takes {
		styles = []int{404, 422} // closed runs are not hidden if it is 404
	}
	p.closedAs = styles[(p.state+p.answer)%len(styles)]
	isSent, _ := p.check(t)
	isUsual := p.answer == 0 && p.request != "finish" // the same for each request
	if !isSent || isUsual {
		return 1
	}
	p.stays = true
	p.check(t)
	p.stays = false
	paths++
	step := crashStep()
	for _, p.late = range []bool{false, true} {
		dead := true
		for p.at = 1 + first%step; dead; p.at += step {
			for i := range styles {
				isAll := p.request == "finish" && !p.late // a crash after a call is one before the next
				if !isAll && i != p.at%len(styles) {
					continue
				}
				p.closedAs = styles[i]
				_, dead = p.check(t)
				paths++
			}
		}
	}
	return paths + 1
}

// crashStep is the distance of crashes: make test has few of them, others in each run.
func crashStep() int {
	if testing.Short() {
		return 12
	}
	return 1
}

// check follows a path. It reports whether the drain sent the request and whether it was killed.
func (p path) check(t *testing.T) (isSent, dead bool) {
	t.Helper()
	r, c := newRun(1, 4), &fakeClient{closedAs: p.closedAs, takes: p.takes, hides: p.closedAs == 422}
	r.prepare(t, c, p.state)
	if p.takes { // accounting corrects the run, and again below
		r.run.Outcome = rt.OutcomeOOM
	}
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	k := &killer{at: p.at, late: p.late, kill: kill}
	r.killer, c.killer = k, k
	before := c.calls[p.request]
	if a := answers[p.answer]; a.err != nil {
		c.answer(func(what string, n int) error { return pick(what == p.request && (p.stays || n == before+1), a.err()) }, a.acts)
	}
	_, _ = upload.Drain(ctx, dirOf(r), c, c, upload.DrainOptions{Tries: 2})
	if p.stays && !r.delivered {
		_, _ = upload.Drain(ctx, dirOf(r), c, c, upload.DrainOptions{Tries: 2})
	}
	if p.takes && !r.delivered {
		r.run.Outcome = rt.OutcomeFailed
	}
	isSent, dead = c.calls[p.request] > before, k.dead
	r.killer, c.killer = nil, nil
	c.answer(nil, false)

	notes := upload.Summary{}
	for n := 0; !r.delivered; n++ {
		if n == 3 {
			t.Fatalf("%s: not delivered after %d drains: %+v", p, n, r.reg)
		}
		sum, err := upload.Drain(t.Context(), dirOf(r), c, c, upload.DrainOptions{Tries: 2})
		if err != nil && !errors.Is(err, upload.ErrTemporary) {
			t.Fatalf("%s: %v", p, err)
		}
		notes = sum
	}
	p.once(t, r, c, notes)
	return isSent, dead
}

// prepare brings the run into a state.
func (r *fakeRun) prepare(t *testing.T, c *fakeClient, state int) {
	t.Helper()
	s := states[state]
	if s.fails == "" {
		return
	}
	c.answer(func(what string, _ int) error { return pick(what == s.fails, lost()) }, s.acts)
	if _, err := upload.Drain(t.Context(), dirOf(r), c, c, upload.DrainOptions{Tries: 1}); err == nil {
		t.Fatalf("state %s: delivered", s.name)
	}
	isClosing := s.fails == "finish"
	if isClosing == r.reg.FinishIntentAt.IsZero() || r.delivered {
		t.Fatalf("state %s: %+v", s.name, r.reg)
	}
	c.answer(nil, false)
	if s.restored {
		clear(c.objects)
	}
}

// answer sets how requests are answered, after or in the place of the receiver's action.
func (c *fakeClient) answer(how func(what string, n int) error, acts bool) {
	c.fault, c.after = how, nil
	if acts {
		c.fault, c.after = nil, how
	}
}

// checkRecord checks that the record of a closed run is the one that its last finish names. If the
// receiver answered wrongly that the run is closed, accounting may have corrected the record since. If it
// answered wrongly that it refuses the record, the finish names none and the ledger has an event.
func (p path) checkRecord(t *testing.T, r *fakeRun, c *fakeClient, f upload.Finish) {
	t.Helper()
	record := string(c.objects["s3://b/p/"+f.RemoteID+"/"+upload.RecordName])
	hasNone := record == "" && f.RecordSHA256 == "" && len(f.Summary) == 0
	isNamed := f.RecordSHA256 == c.recordSum(f.RemoteID) && strings.HasSuffix(record, f.Status)
	isNewest := r.has("finish unconfirmed") && record == r.record()
	isNoted := r.has("not sent") || r.has("unconfirmed")
	isWithout := f.RecordSHA256 == "" && isNoted
	isOwn := len(f.Summary) > 0 && (isNamed || isNewest || isWithout)
	if p.takes != isOwn || p.takes == hasNone {
		t.Errorf("%s: the finish as %s with the summary %s names %q, the record is %q", p, f.Status, f.Summary, f.RecordSHA256, record)
	}
}

// once checks that the rows arrived once, and that the ledger explains everything else that
// arrived.
func (p path) once(t *testing.T, r *fakeRun, c *fakeClient, last upload.Summary) {
	t.Helper()
	for id, f := range c.finished {
		csv := resourcetracker.CSVHeader
		for _, uri := range f.URIs {
			if !strings.HasPrefix(uri, "s3://b/p/"+id+"/") {
				t.Errorf("%s: run %s has %s", p, id, uri)
			}
			_, rows, _ := strings.Cut(text(t, c.objects[uri]), "\n")
			csv += rows
		}
		checkRows(t, csv, r)
		p.checkRecord(t, r, c, f)
	}
	isNoted := r.has("finish unconfirmed")
	if len(c.finished) > 1 || len(c.finished) == 0 && !isNoted {
		t.Errorf("%s: %d runs are closed, unconfirmed %v", p, len(c.finished), isNoted)
	}
	// After a finish without an answer, the API said wrongly that the run is closed. A killed drain
	// may not have saved the answer.
	isUnanswered := states[p.state].fails == "finish" || p.at > 0
	isLie := slices.Contains([]string{"404 of the API", "409", "410", "422"}, answers[p.answer].name)
	if len(c.finished) == 0 && !(isLie && isUnanswered && p.request == "finish") {
		t.Errorf("%s: the run is delivered and not closed", p)
	}
	// Such an answer to a registration counts as a refusal. The second run is empty, and otherwise
	// a wrong endpoint would be reported as a possible duplicate of each run.
	isRefusal := p.request == "register" && answers[p.answer].name == "404 of a gateway after"
	if extra := len(c.known) - 1; extra > 0 && !isRefusal && !r.has("possible duplicate") && !r.has("forgotten") {
		t.Errorf("%s: %d runs more are registered: %+v", p, extra, r.events)
	}
	isUnconfirmed := r.reg.FinishedAt.IsZero()
	isSilent := last.Delivered > 0 && last.FinishUnconfirmed == 0 // of a killed drain the ledger alone has the note
	if isUnconfirmed && (!isNoted || isSilent) {
		t.Errorf("%s: neither confirmed nor noted: %+v, %+v", p, r.reg, r.events)
	}
}
