package upload_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/random"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

const token = "tok-0123456789abcdef"

type remoteRun struct {
	ID, Status string
	Metadata   map[string]any
	Objects    []struct{ Key, SHA256 string }
	Rows       int
	ExitCode   *int `json:"exit_code"`
}

func (s *site) get(t *testing.T, path string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v: %s", path, resp.Status, err, b)
	}
	return b
}

func (s *site) list(t *testing.T) []remoteRun {
	t.Helper()
	var list []remoteRun
	if err := json.Unmarshal(s.get(t, "/runs"), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// checkRows: the receiver's rows are the run's intervals, each once and in order,
// and every counter's column adds up to last minus first reading.
func checkRows(t *testing.T, csv string, r *fakeRun) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(csv, "\n"), "\n")
	job := "" // before the names of the columns of the job
	switch lines[0] + "\n" {
	case resourcetracker.CSVHeader:
	case resourcetracker.LiveCSVHeader:
		job = "process_"
	default:
		t.Fatalf("header %q", lines[0])
	}
	columns := strings.Split(lines[0], ",")
	lines = lines[1:]
	if len(lines) != max(0, len(r.snaps)-1) || strings.Count(csv, "timestamp") != 1 {
		t.Fatalf("%d rows of %d snapshots", len(lines), len(r.snaps))
	}
	sums := map[string]float64{}
	for i, line := range lines {
		cells := strings.Split(line, ",")
		if want := strconv.FormatInt(r.snaps[i+1].Wall/1e9, 10); cells[0] != want {
			t.Fatalf("row %d is of %s, not %s", i, cells[0], want)
		}
		for column, cell := range cells {
			if cell == "" || cell == "NaN" {
				continue
			}
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			sums[columns[column]] += v
		}
	}
	if len(r.snaps) < 2 {
		return
	}
	a, z := &r.snaps[0], &r.snaps[len(r.snaps)-1]
	for column, d := range map[string][2]uint64{
		"utime": {a.Job.CPUUser.Or(0) / 1000, z.Job.CPUUser.Or(0) / 1000}, "stime": {a.Job.CPUSystem.Or(0) / 1000, z.Job.CPUSystem.Or(0) / 1000},
		"disk_read_bytes": {a.Job.IOReadBytes.Or(0), z.Job.IOReadBytes.Or(0)}, "disk_write_bytes": {a.Job.IOWriteBytes.Or(0), z.Job.IOWriteBytes.Or(0)},
	} {
		unit := 1.0
		if strings.HasSuffix(column, "time") {
			unit = 1000
		}
		if got := math.Round(sums[job+column] * unit); got != float64(d[1]-d[0]) {
			t.Errorf("column %s adds up to %v, last minus first is %d", job+column, got, d[1]-d[0])
		}
	}
	node := ""
	if job != "" {
		node = "system_"
	}
	for column, d := range map[string][2]uint64{
		"net_recv_bytes": {a.Node.NetRxBytes.Or(0), z.Node.NetRxBytes.Or(0)}, "net_sent_bytes": {a.Node.NetTxBytes.Or(0), z.Node.NetTxBytes.Or(0)},
	} {
		if got := sums[node+column]; got != float64(d[1]-d[0]) {
			t.Errorf("column %s adds up to %v, last minus first is %d", node+column, got, d[1]-d[0])
		}
	}
}

func TestDrainToTheReceiver(t *testing.T) {
	for _, dialect := range []string{upload.DialectSpec, upload.DialectLive, ""} {
		s := newSite(t, dialect)
		d := dirOf(newRun(1, 100), newRun(2, 2), newRun(3, 1), newRun(4, 47))
		failed := d.runs[newRun(4, 0).run.FileStem()]
		failed.run.ExitCode, failed.run.Outcome = rt.Some[int64](7), rt.OutcomeFailed
		sum, err := upload.Drain(t.Context(), d, s.client, s.store, upload.DrainOptions{BatchRows: 10})
		if err != nil || sum.Delivered != 4 || sum.Failed+sum.Waiting+sum.Damaged != 0 {
			t.Fatalf("%s: %+v, %v", dialect, sum, err)
		}
		list := s.list(t)
		if len(list) != 4 {
			t.Fatalf("%d runs", len(list))
		}
		for _, r := range d.runs {
			i := slices.IndexFunc(list, func(x remoteRun) bool { return x.ID == r.reg.RemoteID })
			x := list[i]
			if x.Rows != max(0, len(r.snaps)-1) || x.Metadata["external_run_id"] != r.run.ExternalRunID() || x.Metadata["job_name"] != r.run.Meta.JobName {
				t.Errorf("%+v", x)
			}
			if want := upload.Status(&r.run); x.Status != want || x.ExitCode == nil || int64(*x.ExitCode) != r.run.ExitCode.Or(-1) {
				t.Errorf("status %s, exit code %v", x.Status, x.ExitCode)
			}
			if len(x.Objects) != len(r.batches) {
				t.Errorf("%d objects of %d batches", len(x.Objects), len(r.batches))
			}
			for i, o := range x.Objects {
				if o.SHA256 != r.batches[i].SHA256 || r.batches[i].Key != "s3://rt/"+o.Key || r.batches[i].UploadedAt.IsZero() {
					t.Errorf("object %+v of batch %+v", o, r.batches[i])
				}
			}
			checkRows(t, string(s.get(t, "/runs/"+x.ID+"/data")), r)
			if want := map[string]string{"": "spec", "spec": "spec", "live": "live"}[dialect]; r.reg.Dialect != want {
				t.Errorf("the run was registered as %s, want %s", r.reg.Dialect, want)
			}
		}
		if sum, err = upload.Drain(t.Context(), d, s.client, s.store, upload.DrainOptions{}); err != nil || sum.Rows != 0 {
			t.Errorf("again: %+v, %v", sum, err)
		}
		if s.noToken.Load() != 0 {
			t.Errorf("%d requests were without the token", s.noToken.Load())
		}
	}
}

// deaf hears no answer to its first finish.
type deaf struct {
	*sentinel.Client
	heard bool
}

func (d *deaf) Finish(ctx context.Context, f upload.Finish) error {
	err := d.Client.Finish(ctx, f)
	if err == nil && !d.heard {
		d.heard = true
		return upload.NoAnswer("POST", io.ErrUnexpectedEOF)
	}
	return err
}

// Accounting may learn the end of a run after its finish was sent and the answer was lost. The
// repeated finish has that end.
func TestTheEndIsKnownBetterTheSecondTime(t *testing.T) {
	s := newSite(t, upload.DialectSpec)
	s.meddle = func(w http.ResponseWriter, r *http.Request, _ http.Handler) { s.lenient.ServeHTTP(w, r) }
	d := dirOf(newRun(1, 5))
	client := &deaf{Client: s.client}
	if _, err := upload.Drain(t.Context(), d, client, s.store, upload.DrainOptions{Tries: 1}); !errors.Is(err, upload.ErrTemporary) {
		t.Fatal(err)
	}
	for _, r := range d.runs {
		r.run.Outcome, r.run.ExitCode = rt.OutcomeFailed, rt.Some[int64](7)
	}
	if _, err := upload.Drain(t.Context(), d, client, s.store, upload.DrainOptions{Tries: 1}); err != nil {
		t.Fatal(err)
	}
	if x := s.list(t)[0]; x.Status != upload.StatusFailed || x.ExitCode == nil || *x.ExitCode != 7 || x.Rows != 4 {
		t.Errorf("%+v", x)
	}
}

// killed puts the killer between drain and the receiver.
type killed struct {
	*killer
	*sentinel.Client
	store *s3.Uploader
}

func (k killed) Register(ctx context.Context, run rt.Run, h rt.Host) (got upload.Registered, err error) {
	err = k.step(func() error { got, err = k.Client.Register(context.WithoutCancel(ctx), run, h); return err })
	return got, err
}
func (k killed) Refresh(ctx context.Context, id string) (got upload.Credentials, err error) {
	err = k.step(func() error { got, err = k.Client.Refresh(context.WithoutCancel(ctx), id); return err })
	return got, err
}
func (k killed) Finish(ctx context.Context, f upload.Finish) error {
	return k.step(func() error { return k.Client.Finish(context.WithoutCancel(ctx), f) })
}
func (k killed) Put(ctx context.Context, uri string, c upload.Credentials, body []byte) error {
	return k.step(func() error { return k.store.Put(context.WithoutCancel(ctx), uri, c, body) })
}

// A drain is killed at each of its calls, before or after the call takes effect. The next drain
// makes up for it: each run finished once, every row there once.
func TestKilledAtEveryStep(t *testing.T) {
	for _, late := range []bool{false, true} {
		for at, alive := 1+random.Below(t, crashStep()), false; !alive; at += crashStep() {
			s := newSite(t, "")
			ctx, cancel := context.WithCancel(t.Context())
			k := &killer{at: at, late: late, kill: cancel}
			r := newRun(1, 24)
			r.killer = k
			through := killed{killer: k, Client: s.client, store: s.store}
			o := upload.DrainOptions{BatchRows: 10}
			first, err := upload.Drain(ctx, dirOf(r), through, through, o)
			cancel()
			if alive = !k.dead; alive != (err == nil) {
				t.Fatalf("killed at call %d, late %v: %+v, %v", at, late, first, err)
			}
			r.killer = nil
			second, err := upload.Drain(t.Context(), dirOf(r), s.client, s.store, o)
			if err != nil || !r.delivered {
				t.Fatalf("after a kill at call %d, late %v: %+v, %v", at, late, second, err)
			}
			list := s.list(t)
			finished := slices.DeleteFunc(slices.Clone(list), func(x remoteRun) bool { return x.Status == "running" })
			if len(finished) != 1 || finished[0].ID != r.reg.RemoteID || len(finished[0].Objects) != 3 {
				t.Fatalf("killed at call %d, late %v: %+v", at, late, list)
			}
			checkRows(t, string(s.get(t, "/runs/"+r.reg.RemoteID+"/data")), r)
			if unknown := len(list) - 1; second.PossibleDuplicates < unknown {
				t.Errorf("killed at call %d, late %v: %d runs too many, %d reported", at, late, unknown, second.PossibleDuplicates)
			}
			if alive && (at < 15 || first.PossibleDuplicates != 0) {
				t.Errorf("only %d calls were tried; %+v", at, first)
			}
		}
	}
}

// Faults on the wire: every one is got over within a drain or by the next one.
func TestFaultsOnTheWire(t *testing.T) {
	for name, meddle := range map[string]func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64){
		"every third request gets 500": func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64) {
			if n%3 == 0 {
				http.Error(w, "out of order", http.StatusInternalServerError)
				return
			}
			next.ServeHTTP(w, r)
		},
		"every third connection is reset": func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64) {
			if n%3 == 0 {
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		},
		"every third answer is lost": func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64) {
			if n%3 == 0 {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		},
		"the credentials always have ended": func(w http.ResponseWriter, r *http.Request, next http.Handler, n int64) {
			if r.Method == http.MethodPut && n%3 == 0 {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprint(w, "<Error><Code>ExpiredToken</Code><Message>ended</Message></Error>")
				return
			}
			next.ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newBubbleSite(t)
				var n atomic.Int64
				s.meddle = func(w http.ResponseWriter, r *http.Request, next http.Handler) { meddle(w, r, next, n.Add(1)) }
				r := newRun(1, 24)
				sum, err := upload.Drain(t.Context(), dirOf(r), s.client, s.store, upload.DrainOptions{BatchRows: 10})
				if err != nil || sum.Delivered != 1 {
					t.Fatalf("%+v, %v", sum, err)
				}
				s.mu.Lock()
				s.meddle = nil
				s.mu.Unlock()
				checkRows(t, string(s.get(t, "/runs/"+r.reg.RemoteID+"/data")), r)
				if extra := len(s.list(t)) - 1; extra > 0 && sum.PossibleDuplicates == 0 {
					t.Errorf("%d runs too many, none reported", extra)
				}
			})
		})
	}
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	for name, answer := range map[string]string{
		"not JSON":     "<html>" + token,
		"an array":     `[]`,
		"no run":       `{"upload_uri_prefix":"s3://b/p","upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t"}}`,
		"a path":       `{"run_id":"../x","upload_uri_prefix":"s3://b/p","upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t"}}`,
		"no bucket":    `{"run_id":"x","upload_uri_prefix":"https://b/p","upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t"}}`,
		"no secrets":   `{"run_id":"x","upload_uri_prefix":"s3://b/p"}`,
		"a header":     `{"run_id":"x","upload_uri_prefix":"s3://b/p","upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t\r\nX: y"}}`,
		"no time":      `{"run_id":"x","upload_uri_prefix":"s3://b/p","upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t","expiration":"soon"}}`,
		"far too long": `{"run_id":"` + strings.Repeat("x", 2<<20) + `"}`,
	} {
		s := newSite(t, "")
		s.meddle = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { _, _ = io.WriteString(w, answer) }
		r := newRun(1, 3)
		sum, err := upload.Drain(t.Context(), dirOf(r), s.client, s.store, upload.DrainOptions{})
		if !errors.Is(err, upload.ErrTemporary) || sum.Failed != 1 || len(sum.Problems) != 1 {
			t.Errorf("%s: %+v, %v", name, sum, err)
			continue
		}
		if text := sum.Problems[0].Error; strings.Contains(text, token) || len(text) > 800 || !strings.Contains(text, s.url) {
			t.Errorf("%s: %s", name, text)
		}
		if r.reg.Attempts != 1 {
			t.Errorf("%s: registered %d times", name, r.reg.Attempts)
		}
	}
}

func TestBatchesAreGzipWithoutATime(t *testing.T) {
	r := newRun(1, 5)
	c := &fakeClient{}
	if _, err := drain(t, dirOf(r), c, upload.DrainOptions{}); err != nil {
		t.Fatal(err)
	}
	body := c.objects["s3://b/p/r1/000001.csv.gz"]
	gz, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	csv, err := io.ReadAll(gz)
	if err != nil || !bytes.Equal(body[:8], []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0}) {
		t.Errorf("%v, header % x", err, body[:10])
	}
	checkRows(t, string(csv), r)
}
