package api

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/site"
)

// registered registers a run with more than so many bytes of metadata.
func registered(t *testing.T, s *Server, bytes int) (id string) {
	t.Helper()
	status, body := api(t, s, "POST", "/runs", `{"job_name":"`+strings.Repeat("x", bytes)+`"}`)
	var g grant
	if err := json.Unmarshal([]byte(body), &g); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return g.RunID
}

func finishInline(t *testing.T, s *Server, id, csv string) (int, string) {
	t.Helper()
	return api(t, s, "POST", "/runs/"+id+"/finish", `{"run_status":"finished","data_source":"inline","data_csv":`+strconv.Quote(csv)+`}`)
}

// failing is a fault of one method of the object store.
func failing(method string, err error) func(string) error {
	return func(called string) error {
		if called == method {
			return err
		}
		return nil
	}
}

// incompressible is a text that is too large for the registry, compressed or not.
func incompressible() string {
	random := make([]byte, site.MaxRow)
	rand.Read(random)
	return hex.EncodeToString(random)
}

func wantRows(t *testing.T, s *Server, id, csv string) {
	t.Helper()
	if _, got := api(t, s, "GET", "/runs/"+id+"/data", ""); got != csv {
		t.Errorf("%d bytes of rows, want %d: %.60q", len(got), len(csv), got)
	}
}

// Small objects are in the registry, large ones in the object store. A replaced one is deleted there.
func TestLargeObjectsAreInTheObjectStore(t *testing.T) {
	s := newServer(t, Config{})
	m := memoryOf(s)
	g := register(t, s)
	path := "/rt/runs/" + g.RunID + "/1"
	small, large, other := "a\n1\n", "a\n"+incompressible()+"\n", "a\n"+incompressible()+"\n"
	for i, tc := range []struct {
		path, csv string
		stored    int
	}{
		{path, small, 0}, {path, large, 1}, {path, large, 1}, {path + "b", large, 2}, {path, other, 2}, {path + "b", small, 1}, {path, small, 0}, {path, large, 1},
	} {
		if status, answer := put(t, s, signedPut{g: g, path: tc.path, body: packed(t, tc.csv)}); status != 200 {
			t.Fatalf("%d: %d %s", i, status, answer)
		}
		if m.objects() != tc.stored {
			t.Errorf("%d: %d objects in the object store, not %d", i, m.objects(), tc.stored)
		}
	}
	finish := `{"run_status":"finished","data_source":"s3","data_uris":["s3:/` + path + `"]}`
	if status, answer := api(t, s, "POST", "/runs/"+g.RunID+"/finish", finish); status != 200 {
		t.Fatal(status, answer)
	}
	for csv, want := range map[string]int{large: 200, other: 409} {
		if status, answer := put(t, s, signedPut{g: g, path: path, body: packed(t, csv)}); status != want || m.objects() != 1 {
			t.Errorf("after the finish: %d %s; %d objects in the object store", status, answer, m.objects())
		}
	}
	wantRows(t, s, g.RunID, large)
}

// A registration and a finish may be large.
func TestALargeRegistrationAndFinish(t *testing.T) {
	s := newServer(t, Config{})
	id, csv := registered(t, s, 100_000), "a\n"+incompressible()+"\n"
	for range 2 {
		if status, answer := finishInline(t, s, id, csv); status != 200 {
			t.Fatal(status, answer)
		}
		if n := memoryOf(s).objects(); n != 1 {
			t.Errorf("%d objects in the object store", n)
		}
	}
	wantRows(t, s, id, csv)
	if _, list := api(t, s, "GET", "/runs", ""); !strings.Contains(list, strings.Repeat("x", 100_000)) || !strings.Contains(list, `"status":"finished"`) {
		t.Errorf("%.300s", list)
	}
}

// A run is finished when its rows are there, never before: a drain that repeats the finish gets the
// answer that all is done.
func TestAFinishThatFailsHasItsRowsOrIsNone(t *testing.T) {
	for name, csv := range map[string]string{"few rows": "a\n1\n", "many rows": "a\n" + incompressible() + "\n"} {
		for method, left := range map[string]int{"Put": 0, "FinishRun": 1} {
			s := newServer(t, Config{})
			m := memoryOf(s)
			id := registered(t, s, 0)
			m.fault = failing("Put", errors.New("no answer"))
			if method == "FinishRun" {
				m.fault = nil
				m.refuse(t, "UPDATE OF finish ON run")
			}
			isFew := name == "few rows"
			status, answer := finishInline(t, s, id, csv)
			if isFew && method == "Put" {
				if status != 200 {
					t.Errorf("few rows need no object store: %d %s", status, answer)
				}
				continue
			}
			if _, body := api(t, s, "GET", "/runs/"+id, ""); status != 500 || !strings.Contains(body, `"status":"running"`) {
				t.Errorf("%s, %s: %d, finished without its rows: %.200s", name, method, status, body)
			}
			if !isFew && m.objects() != left { // a change that got no answer may be there
				t.Errorf("%s, %s: %d objects in the object store", name, method, m.objects())
			}
			m.fault = nil
			if method == "FinishRun" {
				m.accept(t)
			}
			for range 2 {
				if status, answer := finishInline(t, s, id, csv); status != 200 {
					t.Errorf("%s, %s: %d %s", name, method, status, answer)
				}
				wantRows(t, s, id, csv)
			}
		}
	}
}

// A client that goes away while its object is being stored leaves no object without a row: the quotas do
// not count that.
func TestAClientThatGoesAway(t *testing.T) {
	s := newServer(t, Config{})
	m := memoryOf(s)
	g := register(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	m.fault = func(string) error {
		cancel()
		return nil
	}
	u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n"+incompressible()+"\n")}
	u.tamper = func(r *http.Request) { *r = *r.WithContext(ctx) }
	status, answer := put(t, s, u)
	rows, err := s.conf.Registry.Objects.OfRun(t.Context(), g.RunID)
	if status != 200 || len(rows) != 1 || m.objects() != 1 || err != nil {
		t.Errorf("%d %s; %d rows, %d objects, %v", status, answer, len(rows), m.objects(), err)
	}
}

// Of an upload to the object store that fails nothing stays.
func TestAFailedUploadIsDeleted(t *testing.T) {
	s := newServer(t, Config{})
	m := memoryOf(s)
	g := register(t, s)
	deleted := 0
	m.fault = func(method string) error {
		switch method {
		case "Put":
			return errors.New("no answer")
		case "Delete":
			deleted++
		}
		return nil
	}
	u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n"+incompressible()+"\n")}
	if status, answer := put(t, s, u); status != 500 || deleted != 1 {
		t.Errorf("%d %s; %d deleted", status, answer, deleted)
	}
}

// Inline data that arrive twice at the same time are stored once.
func TestInlineDataOfTwoFinishesAtTheSameTime(t *testing.T) {
	s := newServer(t, Config{})
	m := memoryOf(s)
	id, csv := registered(t, s, 0), "a\n"+incompressible()+"\n"
	isFirst := true
	var unlocked func() error
	m.fault = func(method string) error {
		if method == "Put" && isFirst {
			isFirst = false
			return unlocked()
		}
		return nil
	}
	unlocked = func() error { // the second finish, while the first one stores its data
		m.mu.Unlock()
		defer m.mu.Lock()
		status, answer := finishInline(t, s, id, csv)
		if status != 200 {
			t.Errorf("second: %d %s", status, answer)
		}
		return nil
	}
	if status, answer := finishInline(t, s, id, csv); status != 200 || m.objects() != 1 {
		t.Errorf("%d %s; %d objects", status, answer, m.objects())
	}
	wantRows(t, s, id, csv)
}

// What the registry refuses does not stay in the object store.
func TestRefusedObjectsAreDeleted(t *testing.T) {
	s := newServer(t, Config{})
	m := memoryOf(s)
	g := register(t, s)
	body := packed(t, "a\n"+incompressible()+"\n")
	for _, c := range []struct {
		change string // of the registry
		want   int
	}{
		{"UPDATE run SET objects = 32768", 413},
		{`UPDATE run SET finish = '{"run_status":"finished"}', finished = 1`, 409},
		{"DELETE FROM run", 404},
	} {
		m.query(t, c.change)
		if status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: body}); status != c.want {
			t.Errorf("%s: %d %s", c.change, status, answer)
		}
		if m.objects() != 0 {
			t.Errorf("%s: %d objects in the object store", c.change, m.objects())
		}
	}
}

// After an error that says that nothing was changed the object is deleted, and after another one it stays.
func TestWhichErrorsAreRefusals(t *testing.T) {
	for err, want := range map[error]bool{
		site.ErrQuota: true, site.ErrFull: true, site.ErrFinished: true, site.ErrTooMany: true, site.ErrNotFound: true, site.ErrMissing: true, site.ErrOlder: true,
		site.ErrAway: false, site.ErrDamaged: false, io.EOF: false,
	} {
		if isRefused(fmt.Errorf("store object 1: %w", err)) != want || isRefused(fmt.Errorf("%w: %w", site.ErrUnclear, err)) {
			t.Errorf("%v", err)
		}
	}
}

// A change that may be durable keeps its object.
func TestTheObjectOfAnUnclearChangeStays(t *testing.T) {
	s := newServer(t, Config{})
	m := memoryOf(s)
	g := register(t, s)
	m.refuse(t, "INSERT ON object")
	u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n"+incompressible()+"\n")}
	if status, answer := put(t, s, u); status != 500 || m.objects() != 1 {
		t.Errorf("%d %s; %d objects", status, answer, m.objects())
	}
}

// deaf is a connection that the client has closed.
type deaf struct{ *httptest.ResponseRecorder }

func (deaf) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// A client that does not read its answer is no fault of the receiver.
func TestAClientThatDoesNotRead(t *testing.T) {
	s := newServer(t, Config{Fault: func(err error) { t.Errorf("a fault: %v", err) }})
	id := registered(t, s, 0)
	if status, answer := finishInline(t, s, id, "a\n1\n"); status != 200 {
		t.Fatal(status, answer)
	}
	for _, path := range []string{"/runs", "/runs/" + id, "/runs/" + id + "/data"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		s.ServeHTTP(deaf{httptest.NewRecorder()}, r)
	}
}
