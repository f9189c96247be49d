package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The mark of the last question is a file of its own: a link in its place is not followed.
func TestAdviceMark(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	f, err := openAdvice()
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{0, true}, {time.Minute, false}, {askEvery + time.Second, true}, {askEvery + time.Minute, false}} {
		if got := f.isDue(now.Add(c.at)); got != c.want {
			t.Errorf("after %s it is due: %v", c.at, got)
		}
	}
	mark, other := filepath.Join(f.dir, askedName), filepath.Join(t.TempDir(), "other")
	old := now.Add(-time.Hour).Truncate(time.Second)
	if err := os.WriteFile(other, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, old, old); err != nil {
		t.Fatal(err)
	}
	for _, replace := range []func(old, name string) error{os.Symlink, os.Link} {
		if err := os.Remove(mark); err != nil {
			t.Fatal(err)
		}
		if err := replace(other, mark); err != nil {
			t.Fatal(err)
		}
		isDue := f.isDue(now)
		info, err := os.Lstat(mark)
		text, readErr := os.ReadFile(other)
		isLink := err == nil && info.Mode()&os.ModeSymlink != 0
		if err != nil || readErr != nil || string(text) != "text" || isDue == isLink {
			t.Errorf("a link: due %v, %q, %v, %v", isDue, text, err, readErr)
		}
	}
}

// A directory of another user has no advice.
func TestAdviceOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes a directory of another user")
	}
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	f, err := openAdvice()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(f.dir, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := openAdvice(); err == nil {
		t.Error("the directory of another user is accepted")
	}
}
