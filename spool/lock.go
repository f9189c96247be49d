package spool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

const (
	dbSuffix   = ".db"
	lockSuffix = ".lock"
	newSuffix  = ".new" // a database that is not complete yet
	drainLock  = ".drain.lock"
)

// lockPath returns the file on which the run's tracker holds a flock. It is not the database
// itself: opening and closing that would drop the locks that SQLite holds on it in the same
// process.
func lockPath(db string) string { return strings.TrimSuffix(db, dbSuffix) + lockSuffix }

// liveLock is the tracker's lock on a run.
type liveLock struct {
	file *os.File
	path string
}

// lockRun makes the lock file of the run at db. The file gets its name after it is locked,
// so that no process sees it unlocked.
func lockRun(db string) (*liveLock, error) {
	path := lockPath(db)
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+newSuffix)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	err = errors.Join(err, os.Remove(f.Name()))
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s: %w: another tracker has the run, or was killed and left this file", path, ErrExists)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &liveLock{f, path}, nil
}

// release releases the lock and, with remove, deletes its file.
func (l *liveLock) release(remove bool) error {
	if l.file == nil {
		return nil
	}
	var err error
	if remove {
		err = os.Remove(l.path)
	}
	err = errors.Join(err, l.file.Close())
	l.file = nil
	return err
}

// Live reports whether the tracker of the run at path is alive, without opening the
// database: whether a process holds the lock of the run.
func Live(path string) (bool, error) {
	f, err := os.OpenFile(lockPath(path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return kernelHasLock(lockPath(path))
	}
	if err != nil {
		return false, fmt.Errorf("check whether the run's tracker is alive: %w", err)
	}
	defer f.Close()
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("check whether the run's tracker is alive: flock %s: %w", f.Name(), err)
	}
	return false, nil
}

// kernelHasLock reports whether a process holds an exclusive flock on the file at path. It does not
// open the file, and the job's user may not either. With a lock the user could keep a run from
// being closed.
func kernelHasLock(path string) (bool, error) {
	var st syscall.Stat_t
	if err := syscall.Lstat(path, &st); err != nil {
		return false, fmt.Errorf("check whether the run's tracker is alive: %s: %w", path, err)
	}
	inode := ":" + strconv.FormatUint(st.Ino, 10)
	// The kernel returns the list a page at a time. If locks change between two pages, a lock can
	// be left out.
	const tries = 5
	for range tries {
		found, err := hasWriteLock("/proc/locks", inode)
		if err != nil {
			return true, nil // a killed tracker leaves the file, but that is rare
		}
		if found {
			return true, nil
		}
	}
	return false, nil
}

// LockDir takes the lock that a process must hold to deliver or remove runs of dir. It does
// not wait: if another process has it, the error is ErrLocked. The lock ends with Unlock or
// with the process.
func LockDir(ctx context.Context, dir string) (unlock func() error, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, drainLock)
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the spool %s: %w", dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("the spool %s: %w (%s)", dir, ErrLocked, path)
	}
	if err := giveToOwner(path, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the spool %s: %w", dir, err), l.Unlock())
	}
	return l.Unlock, nil
}

// giveToOwner gives a lock file that root has made to the owner of the directory. A drain of that
// user can then take the lock as well. Another kind of file with that name, such as a hard link to
// a file of root, is refused.
func giveToOwner(path, dir string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	var file, owner syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &file); err != nil {
		return os.NewSyscallError("fstat "+path, err)
	}
	if file.Mode&syscall.S_IFMT != syscall.S_IFREG || file.Nlink != 1 || file.Size != 0 {
		return fmt.Errorf("%s: %w: a lock is an empty file with one name; remove it", path, ErrForeign)
	}
	if os.Geteuid() != 0 {
		return nil
	}
	if err := syscall.Stat(dir, &owner); err != nil {
		return err
	}
	if file.Uid == owner.Uid && file.Gid == owner.Gid {
		return nil
	}
	return f.Chown(int(owner.Uid), int(owner.Gid))
}

// hasWriteLock reports whether a list of locks, /proc/locks, has an exclusive flock on the inode.
func hasWriteLock(list, inode string) (bool, error) {
	f, err := os.Open(list)
	if err != nil {
		return false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 64<<10), 64<<10) // a read of less than a page is a part of it
	for lines.Scan() {
		f := strings.Fields(lines.Text()) // "1: FLOCK ADVISORY WRITE 4711 08:01:262147 0 EOF"
		if len(f) == 8 && f[1] == "FLOCK" && f[3] == "WRITE" && strings.HasSuffix(f[5], inode) {
			return true, nil
		}
	}
	return false, lines.Err()
}
