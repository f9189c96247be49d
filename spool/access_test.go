package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
)

// What a copy of the test binary does as another user: actAs, then its arguments.
const actAs = "RT_SPOOL_TEST_ACT"

// Users of these tests. No account has to exist: the kernel knows numbers alone.
const (
	trackerUID, ownerUID, strangerUID, supportGID = 61001, 61002, 61003, 61004
)

// act is what the copy does.
func act(args []string) error {
	switch args[0] {
	case "track": // a whole run, as its tracker
		run := testRun()
		run.UID = rt.Some[uint64](ownerUID)
		access := Access{Owner: args[2] != "root"}
		if args[2] == "group" {
			access.Group = rt.Some[uint64](supportGID)
		}
		w, err := Create(args[1], run, rt.Host{}, Options{Access: access})
		if err != nil {
			return err
		}
		m := newMachine(2, 0)
		for range 5 {
			if err := w.Put(m.next()); err != nil {
				return err
			}
		}
		if len(args) > 3 { // it is killed
			return nil
		}
		return w.End(run)
	case "read":
		r, err := Open(args[1])
		if err != nil {
			return err
		}
		n := 0
		for _, err := range r.Snapshots(background, 1, 0) {
			if err != nil {
				return err
			}
			n++
		}
		fmt.Println("snapshots:", n)
		if err := r.AddEvent(rt.Event{}); !errors.Is(err, ErrReadOnly) {
			return fmt.Errorf("a change: %w", err)
		}
		return r.Close()
	case "peek":
		_, err := os.ReadFile(args[1])
		return err
	case "attack":
		return attack(args[1])
	case "lock": // what a query does that is left open
		f, err := os.Open(args[1])
		if err != nil {
			return err
		}
		defer f.Close()
		l := syscall.Flock_t{Type: syscall.F_RDLCK}
		if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &l); err != nil {
			return err
		}
		fmt.Println("locked")
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}
	return fmt.Errorf("no such act: %q", args)
}

// attack tries all that could change the run or put something in its place, and
// fails where one of them works.
func attack(path string) error {
	dir := filepath.Dir(path)
	for what, err := range map[string]error{
		"write":    func() error { f, err := os.OpenFile(path, os.O_RDWR, 0); closeAny(f); return err }(),
		"truncate": os.Truncate(path, 0),
		"chmod":    os.Chmod(path, 0o666),
		"chown":    os.Lchown(path, os.Getuid(), -1),
		"remove":   os.Remove(path),
		"rename":   os.Rename(path, path+"x"),
		"link":     os.Symlink("/etc/passwd", filepath.Join(dir, "x.db")),
		"hardlink": os.Link(path, filepath.Join(dir, "y.db")),
		"create":   os.WriteFile(filepath.Join(dir, "z.db"), nil, 0o600),
		"acl":      lsetxattr(path, aclAttribute, Access{Owner: true}.acl(rt.Some(uint64(os.Getuid())))),
		"wal":      os.WriteFile(path+"-wal", nil, 0o600),
	} {
		if !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) {
			return fmt.Errorf("%s: %w, want a refusal", what, err)
		}
	}
	return nil
}

func closeAny(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// as runs act as a user and returns what it printed.
func as(t *testing.T, dir string, uid, group uint32, args ...string) (string, error) {
	t.Helper()
	out, err := command(t, dir, uid, group, args...).CombinedOutput()
	return string(out), err
}

func command(t *testing.T, dir string, uid, group uint32, args ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(dir, "program") // go test's own directory is not open to others
	if _, err := os.Stat(program); err != nil {
		copyProgram(t, program)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), actAs+"=1")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{group}}}
	return cmd
}

func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, self); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// sharedSpool is a spool of the tracker's user, as tmpfiles.d makes it, below a
// directory that everybody may enter.
func sharedSpool(t *testing.T) (base, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become two users")
	}
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

// The owner of an ended job reads it, and so does the configured group; nobody
// else does, and nobody changes anything.
func TestWhoMayRead(t *testing.T) {
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
				if may := err == nil && out == "snapshots: 5\n"; may != who.may || !may && !strings.Contains(out, "permission denied") && !strings.Contains(out, "unable to open") {
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
			if err := r.MarkDelivered(start); err != nil { // what root changes stays the owner's
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

// While a job runs, and after its tracker was killed, its file is the tracker's
// alone; whoever closes it lets the owner read.
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
	if out, err := as(t, base, ownerUID, ownerUID, "read", path); err == nil {
		t.Errorf("the job's user reads a run that has not ended: %s", out)
	}
	r := mustOpen(t, path)
	if err := errors.Join(r.CloseLost(rt.Exit{}, ""), r.Grant(Access{Owner: true}), r.Close()); err != nil {
		t.Fatal(err)
	}
	if out, err := as(t, base, ownerUID, ownerUID, "read", path); err != nil || out != "snapshots: 1\n" { // the others were not committed
		t.Errorf("the job's user: %v: %s", err, out)
	}
}

// The owner of an ended job can keep his file from being changed, with sqlite3 and a
// query that he leaves open. Whoever delivers it is told so at once and can read on;
// when he is done all is as before.
func TestOwnerLocksHisRun(t *testing.T) {
	base, dir := sharedSpool(t)
	if out, err := as(t, base, trackerUID, trackerUID, "track", dir, "owner"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%+v, %v", entries, err)
	}
	cmd := command(t, base, ownerUID, ownerUID, "lock", entries[0].Path)
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
	r := mustOpen(t, entries[0].Path)
	waits := int64(0)
	err = r.patient(func() (err error) {
		waits, err = r.db.queryInt("PRAGMA busy_timeout")
		return err
	})
	if err != nil || waits != patienceEnded {
		t.Errorf("a change of an ended run waits for %d ms, %v", waits, err)
	}
	var b interface{ Busy() bool }
	if err := r.MarkDelivered(start); !errors.Is(err, ErrBusy) || !errors.As(err, &b) || !b.Busy() {
		t.Errorf("a change of a locked file: %v", err)
	}
	if _, err := r.Thin(1); err != nil && !errors.Is(err, ErrBusy) {
		t.Errorf("thinning a locked file: %v", err)
	}
	if n, err := r.Count(); n != 5 || err != nil {
		t.Errorf("reading a locked file: %d, %v", n, err)
	}
	if err := errors.Join(hold.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if err := r.MarkDelivered(start); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A change that was broken off: who may only read is not shown half of it, and reads
// on when somebody who may write has completed it.
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

// What somebody else has put into a spool is not opened, by whatever name.
func TestForeignFilesAreRefused(t *testing.T) {
	base, dir := sharedSpool(t)
	victim := filepath.Join(base, "victim.db")
	good := endedFile(t, 5)
	for path, uid := range map[string]int{victim: 0, filepath.Join(dir, "stranger.db"): strangerUID, filepath.Join(dir, "mine.db"): trackerUID} {
		if err := errors.Join(os.WriteFile(path, good, 0o600), os.Chown(path, uid, uid)); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"link.db": victim, "loop.db": "loop.db", "dangling.db": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := List(dir)
	if err != nil || len(entries) != 5 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	for _, e := range entries {
		switch name := filepath.Base(e.Path); {
		case name == "mine.db":
			if e.Err != nil || e.Snapshots != 5 {
				t.Errorf("the good one: %+v", e)
			}
		case !errors.Is(e.Err, ErrForeign):
			t.Errorf("%s: %v", name, e.Err)
		case name == "stranger.db" && !strings.Contains(e.Err.Error(), fmt.Sprint("belongs to uid ", strangerUID)),
			name != "stranger.db" && !strings.Contains(e.Err.Error(), "symbolic link"):
			t.Errorf("%s: the message does not say why: %v", name, e.Err)
		}
		if _, err := Open(e.Path); (err == nil) != (e.Err == nil) {
			t.Errorf("Open of %s: %v", e.Path, err)
		}
	}
	if now, err := os.ReadFile(victim); err != nil || !bytes.Equal(now, good) {
		t.Errorf("the file that a link leads to has changed: %v", err)
	}
}

// Nobody makes a drain give a file away: the directory's owner puts another name of
// it, or a link to it, in the place of the lock.
func TestLockGivesNothingAway(t *testing.T) {
	base, dir := sharedSpool(t)
	lock := filepath.Join(dir, drainLock)
	unlock, err := LockDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if uid := ownerOf(t, lock); uid != trackerUID {
		t.Errorf("the lock belongs to uid %d, not to the directory's owner", uid)
	}
	if err := errors.Join(unlock(), os.Remove(lock)); err != nil {
		t.Fatal(err)
	}
	full, empty := filepath.Join(base, "full"), filepath.Join(base, "empty")
	if err := errors.Join(os.WriteFile(full, []byte("x"), 0o600), os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string]func() error{
		"hard link":          func() error { return os.Link(full, lock) },
		"hard link to empty": func() error { return os.Link(empty, lock) },
		"symbolic link":      func() error { return os.Symlink(full, lock) },
		"content":            func() error { return os.WriteFile(lock, []byte("x"), 0o600) },
		"fifo":               func() error { return syscall.Mkfifo(lock, 0o600) },
		"directory":          func() error { return os.Mkdir(lock, 0o700) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if _, err := LockDir(t.Context(), dir); err == nil || errors.Is(err, ErrLocked) {
			t.Errorf("%s: %v", what, err)
		}
		for _, path := range []string{full, empty, lock} {
			if uid := ownerOf(t, path); uid != 0 {
				t.Errorf("%s: %s now belongs to uid %d", what, path, uid)
			}
		}
		if err := os.Remove(lock); err != nil {
			t.Fatal(err)
		}
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Uid
}

// A file system without access control lists: the run is complete, and the ledger
// and Notify say who cannot read it.
func TestNoAccessControlLists(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("ramfs", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("only root can mount a file system without access control lists: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	run := testRun()
	run.UID = rt.Some[uint64](ownerUID)
	var told []rt.Event
	w, err := Create(dir, run, rt.Host{}, Options{Access: Access{Owner: true}, Notify: func(e rt.Event) { told = append(told, e) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	events, err := mustOpen(t, w.Path()).Events()
	if err != nil || len(events) != 1 || len(told) != 1 || !strings.Contains(events[0].Detail, "no POSIX ACLs") || told[0].Detail != events[0].Detail {
		t.Errorf("the ledger: %+v; told: %+v; %v", events, told, err)
	}
}
