package drain

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
	"github.com/resource-tracker/rt/upload"
)

// recordReceiver is a receiver that takes records. It stores the objects and the finishes of all runs.
type recordReceiver struct {
	mu         sync.Mutex
	registered int
	objects    map[string][][]byte // each version, by URL path
	finishes   []finished
	lose       string // the answer to the next request with this last element of its path
}

type finished struct {
	Status  string          `json:"run_status"`
	Sum     string          `json:"record_sha256"`
	Summary json.RawMessage `json:"summary"`
	URIs    []string        `json:"data_uris"`
}

func (c *recordReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const credentials = `"upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t"}}`
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := "{}"
	what := path.Base(r.URL.Path)
	switch what {
	case "runs":
		c.registered++
		answer = fmt.Sprintf(`{"run_id":"r%d","upload_uri_prefix":"s3://b/p","extensions":{"rt.record":1},%s`, c.registered, credentials)
	case "refresh-credentials":
		answer = "{" + credentials
	case "finish":
		var f finished
		if err := json.Unmarshal(body, &f); err != nil {
			panic(err)
		}
		c.finishes = append(c.finishes, f)
	default:
		c.objects[r.URL.Path] = append(c.objects[r.URL.Path], body)
	}
	if c.lose == what {
		c.lose = ""
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, answer)
}

func newRecordReceiver(t *testing.T) (*recordReceiver, upload.Client, upload.Putter) {
	t.Helper()
	c := &recordReceiver{objects: map[string][][]byte{}}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	client, putter, err := Receiver{Endpoint: srv.URL, S3Endpoint: srv.URL, Token: "t", Dialect: upload.DialectSpec}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return c, client, putter
}

// recordAt returns the record of a spool file.
func recordAt(t *testing.T, file string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := archive.Write(t.Context(), &out, runtest.Open(t, file), nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The record equals the spool file's record, at each attempt and after the delivery, although the
// ledger has events of the delivery. If accounting corrects the run after a finish without an
// answer, the receiver gets the corrected record before the repeated finish.
func TestDrainSendsTheRecord(t *testing.T) {
	c, client, putter := newRecordReceiver(t)
	run, list := runtest.Job()
	dir := &Directory{Dir: t.TempDir(), Access: ownerOnly, Retain: time.Hour}
	w, err := spool.Create(dir.Dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	plan := func(want string) {
		t.Helper()
		entries, err := spool.List(dir.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if action, record := dir.Plan(&entries[0], true); action == "" || record != want {
			t.Errorf("a drain would %q the run and send the record: %q, want %q", action, record, want)
		}
	}
	pass := func() {
		t.Helper()
		if _, err := dir.Drain(t.Context(), client, putter, upload.DrainOptions{Live: true, Tries: 1}); err != nil {
			t.Log(err)
		}
	}
	const object = "/b/p/r2/" + upload.RecordName
	newest := func() []byte {
		t.Helper()
		if len(c.objects[object]) == 0 {
			t.Fatalf("there is no record among %d objects", len(c.objects))
		}
		return c.objects[object][len(c.objects[object])-1]
	}
	put := func(list []rt.Snapshot) {
		t.Helper()
		for i := range list {
			if err := w.Put(&list[i]); err != nil {
				t.Fatal(err)
			}
		}
	}

	put(list[:60])
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	plan("if taken")
	c.lose = "runs" // the next drain notes a possible duplicate
	pass()
	pass()
	if live := recordAt(t, w.Path()); !bytes.Equal(newest(), live) {
		t.Error("the record of the tracked run is another one")
	}
	put(list[60:])
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	want := recordAt(t, w.Path())
	plan("yes")
	c.lose = "finish"
	pass()
	if !bytes.Equal(newest(), want) {
		t.Error("the record of the ended run is another one")
	}
	r := runtest.Open(t, w.Path())
	corrected := r.Run()
	corrected.Outcome, corrected.OutcomeSource = rt.OutcomeTimeout, "sacct"
	if err := r.UpdateRun(corrected); err != nil {
		t.Fatal(err)
	}
	want = recordAt(t, w.Path())
	pass()
	after := recordAt(t, w.Path())
	if !bytes.Equal(newest(), want) || !bytes.Equal(after, want) {
		t.Error("the record has changed with the delivery, or is not the corrected one")
	}
	checkFinishes(t, c, r, want)
}

// checkFinishes checks the last finish, and that the run of the ledger is delivered.
func checkFinishes(t *testing.T, c *recordReceiver, r *spool.Reader, record []byte) {
	t.Helper()
	if len(c.finishes) != 2 {
		t.Fatalf("%d finishes", len(c.finishes))
	}
	f := c.finishes[1]
	if f.Sum != fmt.Sprintf("%x", sha256.Sum256(record)) || f.Status != upload.StatusFailed || !slices.Equal(f.URIs, c.finishes[0].URIs) || f.Sum == c.finishes[0].Sum {
		t.Errorf("%+v", f)
	}
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	isOfDelivery := func(e rt.Event) bool { return e.Kind == rt.EventDelivery }
	if !slices.ContainsFunc(events, isOfDelivery) {
		t.Error("the ledger has no event of the delivery")
	}
	s, err := report.Summarize(r.Run(), events, r.Snapshots(t.Context(), 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(s.Delivered())
	if err != nil {
		t.Fatal(err)
	}
	if string(f.Summary) != string(want) || !s.CPU.UsedSecs.Valid() {
		t.Errorf("the finish has the figures %s, the report %s", f.Summary, want)
	}
	copied, err := archive.Read(t.TempDir(), nil, bytes.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	if got := recordAt(t, copied); !bytes.Equal(got, record) {
		t.Error("the copied run has another record")
	}
}
