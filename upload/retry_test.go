package upload_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
)

func TestRetries(t *testing.T) {
	for _, tc := range []struct {
		name     string
		fault    func(what string, n int) error
		calls    map[string]int
		min, max time.Duration
		failed   int
	}{
		{
			name:  "Retry-After is honoured, in one place",
			fault: func(what string, n int) error { return pick(n <= 2, fault(upload.Temporary, 429, 20*time.Second)) },
			calls: map[string]int{"register": 3, "put": 3, "finish": 3}, min: 120 * time.Second, max: 132 * time.Second,
		},
		{
			name:  "server errors, with growing pauses",
			fault: func(what string, n int) error { return pick(what == "put" && n <= 4, fault(upload.Temporary, 500, 0)) },
			calls: map[string]int{"register": 1, "put": 5, "finish": 1}, min: 3 * time.Second, max: 12 * time.Second,
		},
		{
			name:  "given up for now",
			fault: func(what string, n int) error { return pick(what == "put", fault(upload.Temporary, 503, 0)) },
			calls: map[string]int{"register": 1, "put": 5}, min: 3 * time.Second, max: 12 * time.Second, failed: 1,
		},
		{
			name:  "a Retry-After that is too long is left to the next drain",
			fault: func(what string, n int) error { return pick(what == "finish", fault(upload.Temporary, 503, time.Hour)) },
			calls: map[string]int{"register": 1, "put": 1, "finish": 1}, max: time.Second, failed: 1,
		},
		{
			name:  "refused for good",
			fault: func(what string, n int) error { return pick(what == "register", fault(upload.Permanent, 422, 0)) },
			calls: map[string]int{"register": 1}, max: time.Second, failed: 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &fakeClient{fault: tc.fault}
				before := time.Now()
				sum, err := drain(t, dirOf(newRun(1, 3)), c, upload.DrainOptions{})
				if took := time.Since(before); took < tc.min || took > tc.max {
					t.Errorf("took %v, want %v..%v", took, tc.min, tc.max)
				}
				if sum.Failed != tc.failed || sum.PossibleDuplicates != 0 || errors.Is(err, upload.ErrTemporary) != (tc.failed > 0) {
					t.Errorf("%+v, %v", sum, err)
				}
				if fmt.Sprint(c.calls) != fmt.Sprint(tc.calls) {
					t.Errorf("calls %v, want %v", c.calls, tc.calls)
				}
			})
		})
	}
}

func pick(when bool, err error) error {
	if when {
		return err
	}
	return nil
}

func TestARefusedTokenEndsTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &fakeClient{fault: func(string, int) error { return fault(upload.Unauthorised, 401, 0) }}
		var runs []*fakeRun
		for i := range 50 {
			runs = append(runs, newRun(uint64(i), 2))
		}
		sum, err := drain(t, dirOf(runs...), c, upload.DrainOptions{Concurrency: 2})
		if !errors.Is(err, upload.ErrConfig) || errors.Is(err, upload.ErrTemporary) {
			t.Errorf("error %v", err)
		}
		if sum.Waiting != 50 || c.calls["register"] > 2 || len(sum.Problems) != 1 {
			t.Errorf("%+v after %v", sum, c.calls)
		}
	})
}

func TestAnEndpointThatIsDownEndsTheDrain(t *testing.T) {
	for _, what := range []string{"register", "put"} {
		synctest.Test(t, func(t *testing.T) {
			c := &fakeClient{fault: func(w string, n int) error { return pick(w == what, lost()) }}
			var runs []*fakeRun
			for i := range 100 {
				runs = append(runs, newRun(uint64(i), 2))
			}
			d := dirOf(runs...)
			sum, err := drain(t, d, c, upload.DrainOptions{Concurrency: 3})
			if !errors.Is(err, upload.ErrTemporary) || !strings.Contains(err.Error(), "is down") {
				t.Errorf("error %v", err)
			}
			if sum.Waiting != 100 || c.calls[what] > 5+3 || len(sum.Problems) > 4 {
				t.Errorf("%+v after %v", sum, c.calls)
			}
			c.fault = nil
			if sum, err = drain(t, d, c, upload.DrainOptions{}); err != nil || sum.Delivered != 100 {
				t.Errorf("the next drain: %+v, %v", sum, err)
			}
		})
	}
}

func TestALostRegistrationIsReportedAsPossibleDuplicate(t *testing.T) {
	for _, tc := range []struct {
		name       string
		err        error
		tries      int
		duplicates int
	}{
		{"lost answer", lost(), 1, 1},
		{"a gateway's error", fault(upload.Temporary, 502, 0), 1, 1},
		{"an answer that makes no sense", fault(upload.Permanent, 200, 0), 1, 1},
		{"refused", fault(upload.Permanent, 422, 0), 1, 0},
		{"a service that is down", fault(upload.Temporary, 503, 0), 1, 1},
		{"a proxy whose other side took too long", fault(upload.Temporary, 503, time.Second), 1, 1},
		{"a receiver that has too much to do", &upload.Error{Op: "x", Status: 503, Undone: true, Err: errors.New("503")}, 1, 0},
		{"too many requests", fault(upload.Temporary, 429, 0), 1, 0},
		{"never sent", &upload.Error{Op: "x", Unsent: true, Err: errors.New("refused")}, 1, 0},
		{"lost twice within one drain", lost(), 3, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRun(1, 3)
				d := dirOf(r)
				c := &fakeClient{fault: func(what string, n int) error {
					return pick(what == "register" && n <= 2 && (n == 1 || tc.tries > 1), tc.err)
				}}
				first, err := drain(t, d, c, upload.DrainOptions{Tries: tc.tries})
				second := upload.Summary{}
				if tc.tries == 1 {
					if !errors.Is(err, upload.ErrTemporary) || first.Failed != 1 || first.PossibleDuplicates != 0 {
						t.Errorf("first: %+v, %v", first, err)
					}
					second, err = drain(t, d, c, upload.DrainOptions{})
				}
				if err != nil || first.PossibleDuplicates+second.PossibleDuplicates != tc.duplicates {
					t.Errorf("%+v, %+v, %v", first, second, err)
				}
				if r.reg.Attempts != c.calls["register"] {
					t.Errorf("%d requests were noted, %d sent", r.reg.Attempts, c.calls["register"])
				}
				noted := slices.ContainsFunc(r.events, func(e rt.Event) bool { return e.Status == "possible duplicate" })
				if noted != (tc.duplicates > 0) {
					t.Errorf("events %+v", r.events)
				}
			})
		})
	}
}
