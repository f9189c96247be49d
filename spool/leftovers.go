package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// leftAfter is the age above which an incomplete file counts as left by a crash.
const leftAfter = time.Hour

// leftovers removes incomplete files that a crash left, and lock files and logs without a
// database. A log with readings is treated as a run that is not delivered.
func (c *collector) leftovers(dir string) {
	_ = eachLeftover(dir, c.o.Now, func(path string, st fs.FileInfo) { // List has just read the directory
		reason := "left by a crash"
		if holdsData(path, st) {
			age := c.o.Now.Sub(st.ModTime())
			if !c.o.Undelivered || age < c.o.Retain {
				return
			}
			reason = fmt.Sprintf("readings without the file of their run, last written %s ago", age.Round(time.Second))
		}
		size, _ := diskUsage(path)
		done := Collected{Path: path, Action: Removed, Reason: reason, Size: size, Freed: size}
		if !c.o.DryRun {
			done.Err = os.Remove(path)
			if done.Err != nil {
				done.Freed = 0
			}
		}
		c.total -= done.Freed
		c.done = append(c.done, done)
	})
}

// lostLogs returns an entry for each log with readings whose database is gone.
func lostLogs(dir string) (entries []Entry, err error) {
	err = eachLeftover(dir, time.Now(), func(path string, st fs.FileInfo) {
		if holdsData(path, st) {
			entries = append(entries, Entry{Path: path, Size: st.Size(), Err: fmt.Errorf("%s: %w: it has readings, and the file of their run is gone: "+
				"move that file back to this directory, or remove this one", path, ErrDamaged)})
		}
	})
	return entries, err
}

// eachLeftover calls visit with the files of a directory that belong to a run that does not exist.
func eachLeftover(dir string, now time.Time, visit func(path string, st fs.FileInfo)) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the spool: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if !isLeftover(path) {
			continue
		}
		st, err := os.Lstat(path)
		isOld := err == nil && st.Mode().IsRegular() && now.Sub(st.ModTime()) >= leftAfter
		if isOld {
			visit(path, st)
		}
	}
	return nil
}

// isLeftover reports whether a file belongs to a run that does not exist.
func isLeftover(path string) bool {
	name := filepath.Base(path)
	if strings.HasSuffix(name, newSuffix) || strings.Contains(name, lockSuffix+newSuffix) {
		return true
	}
	for _, suffix := range []string{dbSuffix + "-wal", dbSuffix + "-shm", dbSuffix + "-journal", lockSuffix} {
		stem, ok := strings.CutSuffix(path, suffix)
		if !ok || filepath.Base(stem) == "" || name == drainLock {
			continue
		}
		if _, err := os.Lstat(stem + dbSuffix); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
		alive, err := Live(stem + dbSuffix)
		return err == nil && !alive
	}
	return false
}

// largestHeader is the largest header of a log or a journal of SQLite, in bytes.
const largestHeader = 512

// holdsData reports whether a log or a journal has more than its header. The index of a log has no data.
func holdsData(path string, st fs.FileInfo) bool {
	isLog := strings.HasSuffix(path, dbSuffix+"-wal") || strings.HasSuffix(path, dbSuffix+"-journal")
	return isLog && st.Size() > largestHeader
}
