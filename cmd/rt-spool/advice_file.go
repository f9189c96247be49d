package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/report"
)

// adviceFile is the advice for submissions that the site has given to a user, in ~/.cache/rt/advice.
type adviceFile struct{ dir string }

const (
	askEvery   = 5 * time.Minute    // between two questions to the site
	oldAdvice  = 7 * 24 * time.Hour // an older answer counts no more
	keptKinds  = 100
	kindsName  = "kinds.json"
	askedName  = "asked" // its time is when the site was asked last
	saidPrefix = "said-" // before the day and a hash of the job's name
)

func openAdvice() (f adviceFile, err error) {
	cache := cacheDir()
	if cache == "" {
		return f, errors.New("there is no cache directory: HOME is not set")
	}
	f.dir = filepath.Join(cache, "advice")
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return f, err
	}
	info, err := os.Stat(f.dir)
	if err != nil {
		return f, err
	}
	if st, isStat := info.Sys().(*syscall.Stat_t); !isStat || int(st.Uid) != os.Geteuid() {
		return f, fmt.Errorf("%s is of another user", f.dir)
	}
	return f, nil
}

// kinds returns the kinds of job of the last answer; none if there is no recent one.
func (f adviceFile) kinds(now time.Time) (list []report.Kind) {
	text, info, err := file.ReadSmallInfo(filepath.Join(f.dir, kindsName), file.SmallLimit)
	if err != nil || now.Sub(info.ModTime()) > oldAdvice || json.Unmarshal(text, &list) != nil {
		return nil
	}
	return list
}

// isDue reports whether the site is to be asked now, and marks that it is.
func (f adviceFile) isDue(now time.Time) bool {
	path := filepath.Join(f.dir, askedName)
	mark, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	isNew := err == nil
	if errors.Is(err, fs.ErrExist) {
		mark, err = os.OpenFile(path, os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	}
	if err != nil {
		return false
	}
	defer mark.Close()
	info, err := mark.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if !isNew && now.Sub(info.ModTime()).Abs() < askEvery {
		return false
	}
	at := unix.NsecToTimeval(now.UnixNano())
	return unix.Futimes(int(mark.Fd()), []unix.Timeval{at, at}) == nil
}

// markSaid reports whether a job name gets a line: one a day.
func (f adviceFile) markSaid(name string, now time.Time) bool {
	hash := sha256.Sum256([]byte(name))
	mark, err := os.OpenFile(filepath.Join(f.dir, fmt.Sprintf("%s%s-%x", saidPrefix, now.Format(time.DateOnly), hash[:8])), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	return err == nil && mark.Close() == nil
}

// put replaces the last answer, and removes the marks of earlier days.
func (f adviceFile) put(kinds []report.Kind, now time.Time) error {
	text, err := json.Marshal(kinds[:min(len(kinds), keptKinds)])
	if err != nil {
		return err
	}
	to, err := os.CreateTemp(f.dir, kindsName+"-*")
	if err != nil {
		return err
	}
	if err := file.Replace(to, filepath.Join(f.dir, kindsName), text, 0o600); err != nil {
		return err
	}
	entries, err := os.ReadDir(f.dir)
	for _, e := range entries {
		isOld := strings.HasPrefix(e.Name(), saidPrefix) && !strings.HasPrefix(e.Name(), saidPrefix+now.Format(time.DateOnly))
		if isOld {
			err = errors.Join(err, os.Remove(filepath.Join(f.dir, e.Name())))
		}
	}
	return err
}
