package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
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
	case "track":
		return track(args)
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
	case "follow":
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return follow(args[1], n)
	case "open": // as the drain of the spool's owner does
		r, err := Open(args[1])
		if err != nil {
			return err
		}
		err = r.AddEvent(rt.Event{Kind: "drain"})
		events, err2 := r.Events()
		fmt.Println("events:", len(events))
		return errors.Join(err, err2, r.Close())
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

// follow reads a tracked run n times. Each time the run must be consistent and not older than
// before. It is an error if the log restarted during each copy: then nothing was tested.
func follow(path string, n int) error {
	last, copies := int64(0), 0
	for range n {
		if _, err := pace().Write([]byte{0}); err != nil {
			return err
		}
		r, err := Open(path)
		if errors.Is(err, errRestarted) {
			continue
		}
		copies++
		if err != nil {
			return err
		}
		alive, err := r.Live()
		if err != nil || !alive {
			return fmt.Errorf("alive: %v, %w", alive, err)
		}
		if problems := r.Verify(background); len(problems) > 0 {
			return fmt.Errorf("%v", problems)
		}
		n, err := r.LastSeq()
		if err != nil || n < last {
			return fmt.Errorf("snapshot %d after %d: %w", n, last, err)
		}
		last = n
		if err := r.Close(); err != nil {
			return err
		}
	}
	if copies == 0 {
		return fmt.Errorf("none of %d copies is of one moment", n)
	}
	fmt.Println("grew:", last > 3)
	return nil
}

// track writes a whole run, as its tracker.
func track(args []string) error {
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
	switch {
	case len(args) == 3:
		return w.End(run)
	case args[3] == "killed":
		return nil
	}
	var closed atomic.Bool // standard input: then the job ends
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		closed.Store(true)
	}()
	fmt.Println("tracking")
	for !closed.Load() {
		if err := errors.Join(w.Put(m.next()), w.Flush()); err != nil {
			return err
		}
		if args[3] == "live" { // else a copy takes longer than the log from restart to restart
			awaitReader()
		}
	}
	return w.End(run)
}

// pace is a pipe from the process that follows a run to its tracker, which writes a snapshot for each byte.
var pace = sync.OnceValue(func() *os.File { return os.NewFile(3, "pace") })

// awaitReader waits until the process that follows the run reads it again, or has ended.
func awaitReader() { _, _ = pace().Read(make([]byte, 1)) }

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

// sized returns the size of a test: the smaller one in make test.
func sized(full, short int) int {
	if testing.Short() {
		return short
	}
	return full
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
