package receiver

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

// registered registers a run with more than so many bytes in its run.json.
func registered(t *testing.T, rc *Receiver, bytes int) (id string) {
	t.Helper()
	status, body := api(t, rc, "POST", "/runs", `{"job_name":"`+strings.Repeat("x", bytes)+`"}`)
	var g grant
	if err := json.Unmarshal([]byte(body), &g); err != nil || status != 201 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return g.RunID
}

func finishInline(t *testing.T, rc *Receiver, id, csv string) (int, string) {
	t.Helper()
	return api(t, rc, "POST", "/runs/"+id+"/finish", `{"run_status":"finished","data_source":"inline","data_csv":`+strconv.Quote(csv)+`}`)
}

// incompressible is a text that does not fit into the journal, compressed or not.
func incompressible() string {
	random := make([]byte, smallFile)
	rand.Read(random)
	return hex.EncodeToString(random)
}

func wantRows(t *testing.T, rc *Receiver, id, csv string) {
	t.Helper()
	if _, got := api(t, rc, "GET", "/runs/"+id+"/data", ""); got != csv {
		t.Errorf("%d bytes of rows, want %d: %.60q", len(got), len(csv), got)
	}
}

// A run is finished when its rows are there, never before: a drain that repeats the finish
// gets the answer that all is done.
func TestAFinishThatFailsHasItsRowsOrIsNone(t *testing.T) {
	large := incompressible()
	for name, tc := range map[string]struct {
		metadata int
		csv      string
	}{
		"small":                             {0, "a\n1\n"},
		"a large registration, few rows":    {smallFile, "a\n1\n"},
		"a small registration, many rows":   {0, "a\n" + large + "\n"},
		"a large registration and its rows": {smallFile, "a\n" + large + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			rc := newReceiver(t, Config{})
			id := registered(t, rc, tc.metadata)
			if err := os.Mkdir(rc.inlinePath(id), 0o700); err != nil { // no file can have this name
				t.Fatal(err)
			}
			if status, body := finishInline(t, rc, id, tc.csv); status != 500 {
				t.Errorf("%d %s", status, body)
			}
			if _, body := api(t, rc, "GET", "/runs/"+id, ""); !strings.Contains(body, `"status":"running"`) {
				t.Errorf("finished without its rows: %.200s", body)
			}
			if err := os.Remove(rc.inlinePath(id)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if status, body := finishInline(t, rc, id, tc.csv); status != 200 {
					t.Errorf("%d %s", status, body)
				}
				wantRows(t, rc, id, tc.csv)
				if err := os.Remove(rc.inlinePath(id)); err != nil { // as a damaged journal may leave it
					t.Fatal(err)
				}
			}
		})
	}
}

// A large finish is durable, but not yet the record that the journal's registration is old:
// the finish is not confirmed, as the next start undoes it.
func TestALargeFinishWhoseJournalFails(t *testing.T) {
	rc := newReceiver(t, Config{})
	id := registered(t, rc, 0)
	csv := "a\n" + incompressible() + "\n"
	if err := rc.store.journal.seg.f.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status, body := finishInline(t, rc, id, csv); status != 503 {
			t.Errorf("%d %s", status, body)
		}
	}
	if err := rc.Close(); err == nil {
		t.Error("Close does not return the fault")
	}
	again := newReceiver(t, Config{Dir: rc.store.dir})
	if status, body := finishInline(t, again, id, csv); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	wantRows(t, again, id, csv)
}

// diskFull makes the next record of the segment that is written end halfway.
func diskFull(t *testing.T, j *journal) {
	t.Helper()
	half := appendRecord(nil, "runs/none", []byte("what does not come to its end"))
	_, err := j.seg.f.WriteAt(half[:len(half)-5], j.seg.taken)
	full, openErr := unix.Open("/dev/full", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	name := j.seg.f.Name()
	if err := errors.Join(err, openErr, j.seg.f.Close()); err != nil {
		t.Fatal(err)
	}
	j.seg.f = os.NewFile(uintptr(full), name)
}

// A disk that is full for one write: that request fails, the next ones go into a new
// segment, and a start finds all that was confirmed, before and after.
func TestAFullDiskEndsASegment(t *testing.T) {
	rc := newReceiver(t, Config{})
	j := rc.store.journal
	id := registered(t, rc, 0)
	placed, err := j.add(appendElsewhere(nil, "runs/none")) // keeps the segment from being removed
	if err != nil {
		t.Fatal(err)
	}
	diskFull(t, j)
	if status, body := api(t, rc, "POST", "/runs", "{}"); status != 507 || !strings.Contains(body, "no space left") {
		t.Errorf("%d %s", status, body)
	}
	registered(t, rc, 0)
	if status, body := finishInline(t, rc, id, "a\n1\n"); status != 200 || j.number != 2 {
		t.Errorf("segment %d: %d %s", j.number, status, body)
	}
	_, want := api(t, rc, "GET", "/runs", "")
	again := newReceiver(t, Config{Dir: powerFailure(t, rc, true)})
	if _, got := api(t, again, "GET", "/runs", ""); got != want || strings.Count(got, `"id"`) != 2 {
		t.Errorf("%s\nwant %s", got, want)
	}
	wantRows(t, again, id, "a\n1\n")
	placed()
	if err := rc.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(j.dir); err != nil || len(left) != 0 {
		t.Errorf("%d segments are left, %v", len(left), err)
	}
}

// No new segment can be made: large files, which need none, are taken, small ones are not.
func TestNoNewSegment(t *testing.T) {
	rc := newReceiver(t, Config{})
	j := rc.store.journal
	id := registered(t, rc, 0)
	j.seg.taken = segmentBytes
	was := j.dir
	j.dir = filepath.Join(was, "missing")
	large := "a\n" + incompressible() + "\n"
	if status, body := finishInline(t, rc, id, large); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := api(t, rc, "POST", "/runs", "{}"); status != 500 || !strings.Contains(body, "no such file") {
		t.Errorf("%d %s", status, body)
	}
	j.dir = was
	registered(t, rc, 0)
	if err := rc.Close(); err != nil {
		t.Fatal(err)
	}
	again := newReceiver(t, Config{Dir: rc.store.dir})
	wantRows(t, again, id, large)
}

// A panic in the writer while empty waits for its segment: empty returns the fault.
func TestAPanicOfTheWriterEndsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rc := newReceiver(t, Config{})
		j := rc.store.journal
		never := &entry{records: appendElsewhere(nil, "runs/none"), done: make(chan error)}
		j.waiting, j.writing = []*entry{never}, true
		go j.write()
		synctest.Wait() // it cannot answer never
		seg := j.seg
		result := make(chan error, 1)
		go func() { result <- j.empty() }()
		synctest.Wait() // for never's segment
		close(never.done)
		if err := <-result; err == nil || !strings.Contains(err.Error(), "closed channel") {
			t.Error(err)
		}
		if status, body := api(t, rc, "POST", "/runs", "{}"); status != 503 {
			t.Errorf("%d %s", status, body)
		}
		if err := rc.Close(); err == nil {
			t.Error("Close does not return the fault")
		}
		seg.unended.Done() // the goroutine that removes segments is not left in the bubble
	})
}

// Segments that cannot be removed in time make requests wait.
func TestRequestsWaitForFullSegments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newReceiver(t, Config{}).store.journal
		add := func() func() {
			placed, err := j.add(appendElsewhere(nil, "runs/none"))
			if err != nil {
				t.Error(err)
				return func() {}
			}
			return placed
		}
		first := add()
		for i := range maxFull + 2 {
			if i > 0 {
				add()()
			}
			j.mu.Lock()
			j.retire()
			j.mu.Unlock()
			synctest.Wait() // for first, with what was full then
		}
		waits := make(chan func(), 1)
		go func() { waits <- add() }()
		synctest.Wait()
		if len(waits) > 0 {
			t.Errorf("%d segments wait, and no request", len(j.full))
		}
		first()
		(<-waits)()
		if err := j.empty(); err != nil {
			t.Error(err)
		}
	})
}

// Where syncfs does not report failed writes, each file is synced by itself.
func TestAKernelWithoutErrorsOfSyncfs(t *testing.T) {
	for release, reports := range map[string]bool{
		"6.1.0-18-amd64": true, "5.14.0-427.el9.x86_64": true, "5.8": true, "5.7.19": false,
		"4.18.0-553.el8_10.x86_64": false, "3.10.0-1160.el7": false, "": false, "linux": false,
	} {
		if syncfsReports(release) != reports {
			t.Errorf("%q: %v", release, !reports)
		}
	}
	rc := newReceiver(t, Config{})
	rc.store.journal.unused = true
	g := register(t, rc)
	u := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/000001.csv.gz", body: packed(t, "a\n1\n")}
	if status, answer := put(t, rc, u); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if status, body := finishInline(t, rc, g.RunID, "a\n2\n"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	wantRows(t, rc, g.RunID, "a\n2\n")
	if used, err := os.ReadDir(rc.store.journal.dir); err != nil || len(used) != 0 {
		t.Errorf("%d segments, %v", len(used), err)
	}
}
