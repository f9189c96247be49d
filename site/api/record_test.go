package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// putRecord sends the record of a run in a state and returns its checksum.
func putRecord(t *testing.T, s *Server, g grant, state string, want int) (sum string) {
	t.Helper()
	body := []byte(`{"State":"` + state + `"}`)
	if status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/run.rtrec", body: body}); status != want {
		t.Fatalf("a record: %d %s, not %d", status, answer, want)
	}
	hash := sha256.Sum256(body)
	return hex.EncodeToString(hash[:])
}

// finishWith finishes a run with the rows in its object 1.
func finishWith(t *testing.T, s *Server, g grant, fields string) (int, string) {
	t.Helper()
	return api(t, s, "POST", "/runs/"+g.RunID+"/finish",
		`{"run_status":"finished","data_source":"s3","data_uris":["s3://rt/runs/`+g.RunID+`/1"]`+fields+`}`)
}

// A run has one complete record, which a newer one replaces at any time. It is no data.
func TestRecord(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	if status, answer := put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n1\n")}); status != 200 {
		t.Fatal(status, answer)
	}
	first := putRecord(t, s, g, "running", 200)
	if status, answer := finishWith(t, s, g, `,"record_sha256":"`+strings.Repeat("0", 64)+`"`); status != 422 {
		t.Errorf("a finish with another record: %d %s", status, answer)
	}
	second := putRecord(t, s, g, "ended", 200)
	if status, answer := finishWith(t, s, g, `,"record_sha256":"`+first+`"`); status != 422 {
		t.Errorf("a finish with the record before: %d %s", status, answer)
	}
	for range 2 {
		if status, answer := finishWith(t, s, g, `,"record_sha256":"`+strings.ToUpper(second)+`","summary":{"cpu":1.5}`); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
	}
	third := putRecord(t, s, g, "corrected", 200)
	wantRows(t, s, g.RunID, "a\n1\n")
	var v view
	_, body := api(t, s, "GET", "/runs/"+g.RunID, "")
	if err := json.Unmarshal([]byte(body), &v); err != nil || len(v.Objects) != 1 || v.Rows != rt.Some[int64](1) || v.Record == nil || v.Record.SHA256 != third || string(v.Summary) != `{"cpu":1.5}` {
		t.Errorf("%s, %v", body, err)
	}
	if run := runOfID(t, s, g.RunID); run.Record == nil || run.Record.State != "corrected" {
		t.Errorf("%+v", run.Record)
	}
}

// A request that is delayed does not replace a newer record.
func TestLateRecord(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	now := time.Now()
	for _, step := range []struct {
		user string
		at   time.Time
		want int
	}{
		{"first", now, 200}, {"late", now.Add(-time.Second), 409}, {"first", now, 200}, {"second", now.Add(time.Second), 200},
	} {
		u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/run.rtrec", at: step.at, body: []byte(`{"User":"` + step.user + `"}`)}
		if status, answer := put(t, s, u); status != step.want {
			t.Errorf("%s: %d %s", step.user, status, answer)
		}
	}
	if run := runOfID(t, s, g.RunID); run.Record.User != "second" {
		t.Errorf("%+v", run.Record)
	}
}

// What the registry cannot store is refused before anything is stored.
func TestRecordsOfRunsThatAreNotStored(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	for name, fields := range map[string]string{
		"a large run":    `"User":"` + strings.Repeat("x", 65<<10) + `"`,
		"a large number": `"job_id":18446744073709551615,"Argv":"` + incompressible() + `"`,
	} {
		u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/run.rtrec", body: []byte("{" + fields + "}")}
		if status, answer := put(t, s, u); status != 400 || !strings.Contains(answer, "InvalidRequest") {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	if n := memoryOf(s).objects(); n > 0 || runOfID(t, s, g.RunID).Record != nil {
		t.Errorf("%d objects", n)
	}
}

// A record of a newer version is not refused for good: the node sends it again after an upgrade of the receiver.
func TestARecordOfANewerVersionWaits(t *testing.T) {
	s := newServer(t, Config{RunOf: func(io.Reader) (rt.Run, error) {
		return rt.Run{}, fmt.Errorf("%w: column new_figure", site.ErrNewer)
	}})
	g := register(t, s)
	var header http.Header
	status, answer := put(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		header = w.Header()
	}), signedPut{g: g, path: "/rt/runs/" + g.RunID + "/run.rtrec", body: []byte("{}")})
	hasReason := strings.Contains(answer, "upgrade the receiver") && strings.Contains(answer, "new_figure")
	if status != 503 || header.Get("Retry-After") != "300" || header.Get(HeaderUndone) == "" || !hasReason {
		t.Errorf("%d %v %s", status, header, answer)
	}
	if n := memoryOf(s).objects(); n > 0 {
		t.Errorf("%d objects", n)
	}
}

func TestRecordsThatAreRefused(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	path := "/rt/runs/" + g.RunID + "/"
	for name, u := range map[string]signedPut{
		"not a record":        {path: path + "run.rtrec", body: packed(t, "a\n")},
		"a record by a name":  {path: path + "2", body: []byte("{}")},
		"the name of inline":  {path: path + "inline.csv.gz", body: packed(t, "a\n")},
		"another run's":       {path: "/rt/runs/" + register(t, s).RunID + "/run.rtrec", body: []byte("{}")},
		"larger than allowed": {path: path + "run.rtrec", body: []byte(`{"User":"` + strings.Repeat("x", int(s.conf.MaxObject)) + `"}`)},
	} {
		u.g = g
		if status, answer := put(t, s, u); status != 400 && status != 403 {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	putRecord(t, s, g, "ended", 200)
	for fields, want := range map[string]int{
		`"summary":` + strings.Repeat(`{"x":`, maxDepth) + "1" + strings.Repeat("}", maxDepth):  200,
		`"summary":` + strings.Repeat(`{"x":`, maxDepth) + "[]" + strings.Repeat("}", maxDepth): 422,
		`"summary":{"x":"\"` + strings.Repeat("[", 2*maxDepth) + `"}`:                           200,
		`"summary":[1]`: 422, `"summary":"x"`: 422, `"summary":{"x":"` + strings.Repeat("x", maxSummary) + `"}`: 413,
		`"record_sha256":"12"`: 422, `"record_sha256":7`: 422, `"data_source":"s3","data_uris":["s3://rt/runs/` + g.RunID + `/run.rtrec"]`: 422,
	} {
		body := fmt.Sprintf(`{"run_status":"finished","data_source":"inline","data_csv":"a\n",%s}`, fields)
		if strings.Contains(fields, "data_uris") {
			body = fmt.Sprintf(`{"run_status":"finished",%s}`, fields)
		}
		if status, answer := api(t, s, "POST", "/runs/"+g.RunID+"/finish", body); status != want {
			t.Errorf("%.80s: %d %s", fields, status, answer)
		}
	}
}

// A client learns of the extension from the registration. A receiver without records has none.
func TestExtensions(t *testing.T) {
	for _, has := range []bool{true, false} {
		s := newServer(t, Config{})
		if !has {
			s = newWithoutRecords(t)
		}
		_, body := api(t, s, "POST", "/runs", "{}")
		if strings.Contains(body, `"extensions":{"rt.live":1,"rt.node":1,"rt.record":1}`) != has {
			t.Errorf("with records %v: %s", has, body)
		}
		g := register(t, s)
		want := map[bool]int{true: 200, false: 400}[has]
		putRecord(t, s, g, "ended", want)
	}
}
