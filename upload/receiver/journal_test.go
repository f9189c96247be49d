package receiver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// powerFailure copies a receiver's directory as a disk may have it after a power
// failure: the journal as it was synced, and of what was not synced nothing, or
// files without their content.
func powerFailure(t *testing.T, rc *Receiver, empties bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	from := os.DirFS(rc.store.dir)
	err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, "tmp/") {
			return err
		}
		content, err := fs.ReadFile(from, path)
		if err != nil {
			return err
		}
		if strings.HasPrefix(path, "runs/") {
			if !empties {
				return nil
			}
			content = nil
		}
		to := filepath.Join(dir, path)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, content, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// What was confirmed is there after a power failure that came before anything but the
// journal was synced.
func TestAPowerFailureLosesNothingThatWasConfirmed(t *testing.T) {
	rc := newReceiver(t, Config{})
	var ids []string
	for i := range 3 {
		g := register(t, rc)
		ids = append(ids, g.RunID)
		uri := fmt.Sprintf("s3://rt/runs/%s/000001.csv.gz", g.RunID)
		if status, answer := put(t, rc, signedPut{g: g, path: strings.TrimPrefix(uri, "s3:/"), body: packed(t, fmt.Sprintf("a\n%d\n", i))}); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		finish := map[int]string{
			1: `{"run_status":"failed","data_source":"inline","data_csv":"a\n7\n"}`,
			2: `{"run_status":"finished","data_source":"s3","data_uris":["` + uri + `"]}`,
		}[i]
		if finish == "" {
			continue
		}
		if status, body := api(t, rc, "POST", "/runs/"+g.RunID+"/finish", finish); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	_, want := api(t, rc, "GET", "/runs", "")
	for _, empties := range []bool{false, true} {
		again := newReceiver(t, Config{Dir: powerFailure(t, rc, empties)})
		if _, got := api(t, again, "GET", "/runs", ""); got != want {
			t.Errorf("empty files %v: %s\nwant %s", empties, got, want)
		}
		for i, csv := range []string{"a\n0\n", "a\n7\n", "a\n2\n"} {
			if _, got := api(t, again, "GET", "/runs/"+ids[i]+"/data", ""); got != csv {
				t.Errorf("empty files %v: rows of run %d: %q, want %q", empties, i, got, csv)
			}
		}
	}
}

// A large object that took the place of a small one is not replaced by it again.
func TestTheJournalForgetsWhatALargeObjectReplaced(t *testing.T) {
	rc := newReceiver(t, Config{})
	g := register(t, rc)
	u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/000001.csv.gz", body: packed(t, "a\n1\n")}
	var csv strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&csv, "%x\n", uint64(i+1)*0x9e3779b97f4a7c15) // nothing that gzip makes small
	}
	large := packed(t, csv.String())
	if len(large) <= smallFile {
		t.Fatalf("%d bytes are no large object", len(large))
	}
	for _, u.body = range [][]byte{u.body, large} {
		if status, answer := put(t, rc, u); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	dir := powerFailure(t, rc, false)
	path := filepath.Join(dir, runFile(g.RunID, "objects", "000001.csv.gz"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, large, 0o600)); err != nil { // it was synced
		t.Fatal(err)
	}
	again := newReceiver(t, Config{Dir: dir})
	if _, got := api(t, again, "GET", "/runs/"+g.RunID+"/data", ""); got != csv.String() {
		t.Errorf("%d bytes of rows, want %d", len(got), csv.Len())
	}
}

// What is too large for the journal finds its directory, which may be new.
func TestALargeRegistrationAndFinish(t *testing.T) {
	rc := newReceiver(t, Config{})
	long := incompressible()
	status, body := api(t, rc, "POST", "/runs", `{"job_name":"`+long+`"}`)
	var g grant
	if err := json.Unmarshal([]byte(body), &g); err != nil || status != 201 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	csv := "a\n" + long + "\n"
	for range 2 {
		finish := `{"run_status":"finished","data_source":"inline","data_csv":` + strconv.Quote(csv) + `}`
		if status, body := api(t, rc, "POST", "/runs/"+g.RunID+"/finish", finish); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
	}
	if _, got := api(t, rc, "GET", "/runs/"+g.RunID+"/data", ""); got != csv {
		t.Errorf("%d bytes of rows, want %d", len(got), len(csv))
	}
	if _, list := api(t, rc, "GET", "/runs", ""); !strings.Contains(list, long) || !strings.Contains(list, `"status":"finished"`) {
		t.Errorf("%.300s", list)
	}
}

// Many requests at the same time, over several segments: full segments go, all is
// there, and a receiver that ends leaves no journal.
func TestFullSegmentsAreRemoved(t *testing.T) {
	rc := newReceiver(t, Config{})
	content := bytes.Repeat([]byte("x"), smallFile)
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := range 2*segmentBytes/smallFile/8 + 1 {
				if err := rc.store.keep(file{fmt.Sprintf("runs/%d/%d", w, i), content}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := rc.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Join(rc.store.dir, "journal"))
	if err != nil || len(left) != 0 || rc.store.journal.number < 2 {
		t.Errorf("%d of %d segments are left, %v", len(left), rc.store.journal.number, err)
	}
	for w := range 8 {
		for i := range 2*segmentBytes/smallFile/8 + 1 {
			if got, err := os.ReadFile(filepath.Join(rc.store.dir, "runs", fmt.Sprint(w), fmt.Sprint(i))); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
		}
	}
}

// A disk that does not take what was written to it: nothing more is confirmed.
func TestADiskFailureIsReportedAndNothingIsAccepted(t *testing.T) {
	rc := newReceiver(t, Config{})
	register(t, rc)
	closed, err := os.Open(t.TempDir())
	if err == nil {
		err = closed.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	rc.store.journal.fs = closed // a sync of it fails
	if err := rc.store.journal.empty(); err == nil {
		t.Error("the sync did not fail")
	}
	if status, body := api(t, rc, "POST", "/runs", "{}"); status != 503 || !strings.Contains(body, "disk fails") || strings.Contains(body, rc.store.dir) {
		t.Errorf("%d %s", status, body)
	}
	if left, err := os.ReadDir(filepath.Join(rc.store.dir, "journal")); err != nil || len(left) != 1 {
		t.Errorf("%d segments are left for the next start, %v", len(left), err)
	}
}

// A journal that is cut anywhere has all its records before the cut.
func TestACutJournal(t *testing.T) {
	var whole []byte
	var ends []int
	for i := range 5 {
		whole = appendRecord(whole, fmt.Sprintf("runs/%d", i), bytes.Repeat([]byte{byte(i)}, i*7))
		ends = append(ends, len(whole))
	}
	for cut := range len(whole) + 1 {
		torn := append(bytes.Clone(whole[:cut]), make([]byte, 40)...) // zeros follow, as in a segment
		records := 0
		for name, content, here, rest, ok := nextRecord(torn); ok; name, content, here, rest, ok = nextRecord(rest) {
			if name != fmt.Sprintf("runs/%d", records) || len(content) != records*7 || !here {
				t.Fatalf("cut at %d: record %d is %q with %d bytes", cut, records, name, len(content))
			}
			records++
		}
		want := 0
		for want < len(ends) && ends[want] <= cut {
			want++
		}
		if records != want {
			t.Fatalf("cut at %d: %d records, want %d", cut, records, want)
		}
	}
}

func TestAForeignJournalIsRefused(t *testing.T) {
	for name, content := range map[string][]byte{
		"00000001.log": appendRecord(nil, "../outside", []byte("x")),
		"notes.txt":    nil,
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "journal", name)
		if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Config{Dir: dir, Tokens: []TokenHash{HashToken(token)}}); err == nil {
			t.Errorf("%s was taken", name)
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "outside")); err == nil {
			t.Error("a file outside was written")
		}
	}
}

func FuzzRecords(f *testing.F) {
	f.Add(appendElsewhere(appendRecord(nil, "runs/1/run.json", []byte("{}")), "runs/1/objects/1"))
	f.Add(make([]byte, 64))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, content, here, rest, ok := nextRecord(b); ok; name, content, here, rest, ok = nextRecord(rest) {
			again := appendElsewhere(nil, name)
			if here {
				again = appendRecord(nil, name, content)
			}
			if !bytes.Equal(again, b[:len(b)-len(rest)]) {
				t.Fatalf("record %q is written as %q", b[:len(b)-len(rest)], again)
			}
			b = rest
		}
	})
}
