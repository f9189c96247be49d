package objects

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/site"
)

// Dir stores objects as files of a directory. Several processes may use the directory at the
// same time.
type Dir struct {
	root   *os.Root // no name and no symbolic link leads out of it
	locked *os.File // the directory, with a shared lock as long as it is in use
	at     func(step string) error
}

// tempDir is the directory of files that are being written. It is no name of an object.
const tempDir = ".new"

// The steps of Put. A test fails or stops after each of them.
const (
	stepCreated   = "created"
	stepWritten   = "written"
	stepSynced    = "synced"
	stepRenamed   = "renamed"
	stepDirSynced = "directories synced"
)

// OpenDir opens a directory, which it creates if it is not there. If no other process uses the
// directory, OpenDir removes the files that processes have left which died in Put.
func OpenDir(dir string) (*Dir, error) {
	if err := file.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of the objects: %w", full(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the directory of the objects: %w", err)
	}
	d := &Dir{root: root, at: func(string) error { return nil }}
	if err := d.lock(); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the directory of the objects %s: %w", dir, full(err)), d.Close())
	}
	return d, nil
}

// lock takes the shared lock. A process that gets the exclusive lock first is the only one, and may clean up.
func (d *Dir) lock() error {
	var err error
	d.locked, err = d.root.Open(".")
	if err != nil {
		return err
	}
	fd := int(d.locked.Fd())
	err = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = d.root.RemoveAll(tempDir)
	} else if errors.Is(err, unix.EWOULDBLOCK) {
		err = nil
	}
	if err != nil {
		return err
	}
	if err := d.root.Mkdir(tempDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for {
		err := unix.Flock(fd, unix.LOCK_SH)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Close releases the directory.
func (d *Dir) Close() error {
	var err error
	if d.locked != nil {
		err = d.locked.Close()
	}
	return errors.Join(err, d.root.Close())
}

// Put stores the bytes of body, which must have the given size, under a name. They are durable
// when it returns nil. Otherwise the name has the earlier object, or all of these bytes if only the
// last sync failed. Put replaces an object of the same name.
func (d *Dir) Put(ctx context.Context, name string, size int64, body io.Reader) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := d.putObject(ctx, name, size, body); err != nil {
		return fmt.Errorf("store object %s: %w", name, full(err))
	}
	return nil
}

func (d *Dir) putObject(ctx context.Context, name string, size int64, body io.Reader) error {
	whole, err := exactly(body, size)
	if err != nil {
		return err
	}
	temp := path.Join(tempDir, rand.Text())
	f, err := d.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = d.at(stepCreated)
	if err == nil {
		_, err = io.Copy(f, cancelled{ctx, whole})
	}
	if err == nil {
		err = d.at(stepWritten)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = d.at(stepSynced)
	}
	if err == nil {
		err = d.rename(temp, name)
	}
	if err != nil {
		_ = d.root.Remove(temp) // else the next OpenDir removes it
		d.removeEmpty(path.Dir(name))
		return err
	}
	if err := d.at(stepRenamed); err != nil {
		return err
	}
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		if err := d.syncDir(dir); err != nil {
			return err
		}
		if dir == "." {
			return d.at(stepDirSynced)
		}
	}
}

// rename gives a file its name. A Delete may remove the directory between the two calls.
func (d *Dir) rename(temp, name string) error {
	var err error
	for range 100 {
		err = d.root.Rename(temp, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := d.root.MkdirAll(path.Dir(name), 0o700); err != nil {
			return err
		}
	}
	return err
}

func (d *Dir) syncDir(name string) error {
	f, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a Delete has removed it, with the object
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// removeEmpty removes directories without an object, from the lowest up.
func (d *Dir) removeEmpty(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		info, err := d.root.Lstat(dir)
		isDir := err == nil && info.IsDir()
		if !isDir || d.root.Remove(dir) != nil {
			return // in most cases it has other objects
		}
	}
}

// Get opens an object. The error is site.ErrNotFound if there is none.
func (d *Dir) Get(_ context.Context, name string) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if isAbsent(err) {
		return nil, fmt.Errorf("read object %s: %w", name, site.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("read object %s: %w", name, err)
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = site.ErrNotFound
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read object %s: %w", name, err), f.Close())
	}
	return f, nil
}

// Delete removes an object. An absent object is no error.
func (d *Dir) Delete(_ context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	info, err := d.root.Lstat(name)
	isDir := err == nil && info.IsDir()
	if isAbsent(err) || isDir {
		return nil
	}
	if err := d.root.Remove(name); err != nil && !isAbsent(err) {
		return fmt.Errorf("delete object %s: %w", name, err)
	}
	dir := path.Dir(name)
	if err := d.syncDir(dir); err != nil {
		return fmt.Errorf("delete object %s: %w", name, err)
	}
	d.removeEmpty(dir)
	return nil
}

// List returns the objects with names that begin with prefix, in no particular order. An
// iteration that yields an error ends.
func (d *Dir) List(ctx context.Context, prefix string) iter.Seq2[site.Stored, error] {
	return func(yield func(site.Stored, error) bool) {
		err := checkPrefix(prefix)
		if err == nil {
			err = d.walk(ctx, prefix, func(i site.Stored) bool { return yield(i, nil) })
		}
		if err != nil {
			yield(site.Stored{}, fmt.Errorf("list the objects: %w", err))
		}
	}
}

func (d *Dir) walk(ctx context.Context, prefix string, yield func(site.Stored) bool) error {
	top := "."
	if at := strings.LastIndexByte(prefix, '/'); at > 0 {
		top = prefix[:at]
	}
	return fs.WalkDir(d.root.FS(), top, func(name string, e fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isAbsent(err): // removed in the meantime
			return nil
		case err != nil:
			return err
		case name == tempDir:
			return fs.SkipDir
		}
		isObject := e.Type().IsRegular() && checkName(name) == nil
		if !isObject || !strings.HasPrefix(name, prefix) {
			return nil
		}
		info, err := e.Info()
		if isAbsent(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if !yield(site.Stored{Name: name, Bytes: info.Size(), Modified: info.ModTime()}) {
			return fs.SkipAll
		}
		return nil
	})
}

// isAbsent: ENOTDIR means that a directory of the name is an object.
func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) }

// full adds site.ErrFull to the error of a full disk.
func full(err error) error {
	isFull := errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
	if isFull && !errors.Is(err, site.ErrFull) {
		return fmt.Errorf("%w: %w", site.ErrFull, err)
	}
	return err
}

// cancelled ends the reading of a body with its context.
type cancelled struct {
	ctx  context.Context
	body io.Reader
}

func (c cancelled) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.body.Read(p)
}
