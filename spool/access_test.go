package spool

import (
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
)

// needsRoot skips a test of several users.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes two users")
	}
}

// sharedSpool is a spool of the tracker's user, as tmpfiles.d makes it, below a
// directory that everybody may enter.
func sharedSpool(t *testing.T) (base, dir string) {
	t.Helper()
	needsRoot(t)
	base, err := os.MkdirTemp("", "rt-access")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	dir = filepath.Join(base, "spool")
	if err := errors.Join(os.Chmod(base, 0o755), os.Mkdir(dir, 0o755), os.Chown(dir, trackerUID, trackerUID)); err != nil {
		t.Fatal(err)
	}
	return base, dir
}

// The owner of an ended job can read it, and so can the configured group. Other users cannot,
// and none of them can change it.
func TestWhoMayRead(t *testing.T) {
	needsRoot(t)
	t.Parallel()
	for _, access := range []string{"owner", "group", "root"} {
		t.Run(access, func(t *testing.T) {
			base, dir := sharedSpool(t)
			if out, err := as(t, base, trackerUID, trackerUID, "track", dir, access); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			entries, err := List(dir)
			if err != nil || len(entries) != 1 || entries[0].Err != nil {
				t.Fatalf("%+v, %v", entries, err)
			}
			path := entries[0].Path
			for _, who := range []struct {
				name       string
				uid, group uint32
				may        bool
			}{
				{"the job's user", ownerUID, ownerUID, access != "root"},
				{"a member of the group", strangerUID, supportGID, access == "group"},
				{"a stranger", strangerUID, strangerUID, false},
				{"a stranger of the tracker's group", strangerUID, trackerUID, false},
			} {
				out, err := as(t, base, who.uid, who.group, "read", path)
				may := err == nil && out == "snapshots: 5\n"
				isDenied := strings.Contains(out, "permission denied") || strings.Contains(out, "unable to open")
				hasReason := may || isDenied
				if may != who.may || !hasReason {
					t.Errorf("%s reads: %v, want %v: %s", who.name, may, who.may, out)
				}
				if out, err := as(t, base, who.uid, who.group, "attack", path); err != nil {
					t.Errorf("%s: %s", who.name, out)
				}
			}
			r := mustOpen(t, path)
			if problems := r.Verify(t.Context()); len(problems) > 0 {
				t.Errorf("afterwards: %v", problems)
			}
			if err := r.Delivery().MarkDelivered(start); err != nil { // what root changes stays the owner's
				t.Fatal(err)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if out, err := as(t, base, ownerUID, ownerUID, "read", path); (err == nil) != (access != "root") {
				t.Errorf("the job's user after the drain: %v: %s", err, out)
			}
		})
	}
}

// While a job runs, its owner can read it, but holds no lock that could stop the tracker. Other
// users cannot read it.
func TestWhoMayReadARunningJob(t *testing.T) {
	needsRoot(t)
	for _, access := range []string{"owner", "group", "root"} {
		t.Run(access, func(t *testing.T) {
			base, dir := sharedSpool(t)
			path, pace, stop := trackAs(t, base, dir, access, "live")
			for _, who := range []struct {
				name       string
				uid, group uint32
				may        bool
			}{
				{"the job's user", ownerUID, ownerUID, access != "root"},
				{"a member of the group", strangerUID, supportGID, access == "group"},
				{"a stranger", strangerUID, strangerUID, false},
				{"a stranger of the tracker's group", strangerUID, trackerUID, false},
			} {
				out, err := followAs(t, base, who.uid, who.group, pace, path, 6)
				may := err == nil && out == "grew: true\n"
				hasReason := may || strings.Contains(out, "permission denied")
				if may != who.may || !hasReason {
					t.Errorf("%s reads: %v, want %v: %s", who.name, may, who.may, out)
				}
				for _, file := range []string{path, path + "-wal"} {
					if out, err := as(t, base, who.uid, who.group, "peek", file); (err == nil) != who.may {
						t.Errorf("%s reads %s: %v: %s", who.name, file, err, out)
					}
				}
				for _, file := range []string{path + "-shm", lockPath(path)} {
					if out, err := as(t, base, who.uid, who.group, "lock", file); err == nil || !strings.Contains(out, "permission denied") {
						t.Errorf("%s locks %s: %s", who.name, file, out)
					}
				}
				if out, err := as(t, base, who.uid, who.group, "attack", path); err != nil {
					t.Errorf("%s: %s", who.name, out)
				}
			}
			release := func() {}
			if access == "owner" { // neither does the end of the run depend on its reader
				release = lockAs(t, base, ownerUID, path)
			}
			stop()
			release()
			r := mustOpen(t, path)
			if problems := r.Verify(t.Context()); len(problems) > 0 || r.Run().State != rt.StateEnded {
				t.Errorf("afterwards: %v", problems)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("the end leaves %v, %v", left, err)
			}
		})
	}
}

// A copy during which the log restarted is not used, because its pages are of different times.
func TestCopyIsOfOneMoment(t *testing.T) {
	base, dir := sharedSpool(t)
	path, pace, stop := trackAs(t, base, dir, "owner", "busy")
	times := 10
	if testing.Short() {
		times = 3
	}
	if out, err := followAs(t, base, ownerUID, ownerUID, pace, path, times); err != nil {
		t.Error(out)
	}
	stop()
}

// trackAs starts a tracker. It returns the tracker's file, the end of the pipe that a reader writes into, and a
// function that ends the run.
func trackAs(t *testing.T, base, dir, access, how string) (path string, pace *os.File, stop func()) {
	t.Helper()
	tracker := command(t, base, trackerUID, trackerUID, "track", dir, access, how)
	fromReader, pace, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer fromReader.Close()
	tracker.ExtraFiles = []*os.File{fromReader}
	in, err := tracker.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := tracker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracker.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 9)
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "tracking\n" {
		t.Fatalf("%q, %v", said, err)
	}
	paths, err := databases(dir)
	if err != nil || len(paths) != 1 {
		t.Fatalf("%q, %v", paths, err)
	}
	return paths[0], pace, func() {
		if err := errors.Join(in.Close(), pace.Close(), tracker.Wait()); err != nil {
			t.Error(err)
		}
	}
}

// followAs reads a tracked run n times as a user, and returns what act printed.
func followAs(t *testing.T, base string, uid, group uint32, pace *os.File, path string, n int) (string, error) {
	t.Helper()
	cmd := command(t, base, uid, group, "follow", path, strconv.Itoa(n))
	cmd.ExtraFiles = []*os.File{pace}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// lockAs locks a file as a user, until release is called.
func lockAs(t *testing.T, base string, uid uint32, path string) (release func()) {
	t.Helper()
	cmd := command(t, base, uid, uid, "lock", path)
	hold, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 7)
	if _, err := io.ReadFull(out, said); err != nil || string(said) != "locked\n" {
		t.Fatalf("%q, %v", said, err)
	}
	return func() {
		if err := errors.Join(hold.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	}
}

// The owner of a job can read the run of a killed tracker, and no other user can. The process that
// closes the run keeps that.
func TestWhoMayReadALostRun(t *testing.T) {
	base, dir := sharedSpool(t)
	if out, err := as(t, base, trackerUID, trackerUID, "track", dir, "owner", "killed"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v, %v", entries, err)
	}
	path := entries[0].Path
	// The others were not committed. A second reader finds the files of the first one.
	for _, group := range []uint32{ownerUID, trackerUID} {
		if out, err := as(t, base, ownerUID, group, "read", path); err != nil || out != "snapshots: 1\n" {
			t.Errorf("the job's user: %v: %s", err, out)
		}
		if out, err := as(t, base, strangerUID, group, "read", path); err == nil || !strings.Contains(out, "permission denied") {
			t.Errorf("a stranger reads: %s", out)
		}
	}
	r := mustOpen(t, path)
	if err := errors.Join(r.CloseLost(rt.Exit{}, ""), r.Grant(Access{Owner: true}), r.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := as(t, base, ownerUID, ownerUID, "read", path); err != nil || out != "snapshots: 1\n" { // the others were not committed
		t.Errorf("the job's user: %v: %s", err, out)
	}
}

// The owner of an ended job can block changes of its file with a query in sqlite3 that stays
// open. The process that delivers it gets an error at once and can still read; when the query
// is closed, changes work again.
func TestOwnerLocksHisRun(t *testing.T) {
	base, dir := sharedSpool(t)
	if out, err := as(t, base, trackerUID, trackerUID, "track", dir, "owner"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v, %v", entries, err)
	}
	release := lockAs(t, base, ownerUID, entries[0].Path)
	r := mustOpen(t, entries[0].Path)
	waits := int64(0)
	err = r.log.withTimeout(func() (err error) {
		waits, err = r.db.queryInt("PRAGMA busy_timeout")
		return err
	})
	if err != nil || waits != busyTimeoutEnded {
		t.Errorf("a change of an ended run waits for %d ms, %v", waits, err)
	}
	if err := r.Delivery().MarkDelivered(start); !errors.Is(err, ErrBusy) {
		t.Errorf("a change of a locked file: %v", err)
	}
	if _, err := r.Thin(1); err != nil && !errors.Is(err, ErrBusy) {
		t.Errorf("thinning a locked file: %v", err)
	}
	if n, err := r.Count(); n != 5 || err != nil {
		t.Errorf("reading a locked file: %d, %v", n, err)
	}
	release()
	if err := r.Delivery().MarkDelivered(start); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A user with read access does not see half of an interrupted change. The user can read again when
// a process with write access has completed it.
func TestOwnerReadsNoHalfOfAChange(t *testing.T) {
	base, dir := sharedSpool(t)
	if out, err := as(t, base, trackerUID, trackerUID, "track", dir, "owner"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v, %v", entries, err)
	}
	path := entries[0].Path
	c, err := openConn(path, url.Values{"mode": {"rw"}})
	if err != nil {
		t.Fatal(err)
	}
	// So many pages that SQLite must write some of them before the end.
	err = c.exec(`PRAGMA cache_size = 2; BEGIN IMMEDIATE; UPDATE run SET user = 'nobody';
		INSERT INTO event (detail) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300) SELECT hex(zeroblob(900)) FROM n`)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	journal, err2 := os.ReadFile(path + "-journal")
	if err := errors.Join(err, err2, c.exec("ROLLBACK"), c.Close()); err != nil || len(journal) == 0 || journal[0] == 0 {
		t.Fatalf("no hot journal: %v", err)
	}
	if err := errors.Join(os.WriteFile(path, data, 0o600), os.WriteFile(path+"-journal", journal, 0o600),
		os.Chown(path+"-journal", trackerUID, trackerUID)); err != nil {
		t.Fatal(err)
	}
	if out, err := as(t, base, ownerUID, ownerUID, "read", path); err == nil || !strings.Contains(out, "it is being written") {
		t.Errorf("the job's user reads half a change: %v: %s", err, out)
	}
	r := mustOpen(t, path)
	if r.Run().User == "nobody" {
		t.Error("the change was not undone")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := as(t, base, ownerUID, ownerUID, "read", path); err != nil || out != "snapshots: 5\n" {
		t.Errorf("afterwards: %v: %s", err, out)
	}
}

// A file system without access control lists: the run is complete, and the ledger
// and Notify say who cannot read it.
func TestNoAccessControlLists(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("ramfs", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("needs root: mounts a file system without access control lists: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	run := testRun()
	run.UID = rt.Some[uint64](ownerUID)
	var notified []rt.Event
	w, err := Create(dir, run, rt.Host{}, Options{Access: Access{Owner: true}, Notify: func(e rt.Event) { notified = append(notified, e) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	events, err := mustOpen(t, w.Path()).Events()
	if err != nil || len(events) != 1 || events[0].Time.IsZero() || len(notified) != 1 || !strings.Contains(events[0].Detail, "no POSIX ACLs") || notified[0].Detail != events[0].Detail {
		t.Errorf("the ledger: %+v; notified: %+v; %v", events, notified, err)
	}
}
