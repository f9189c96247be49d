package logging

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rt.log")
	l := New(Places{Program: "rt-prolog", Target: path})
	l.With("job", "job 12@n1").Error(errors.Join(errors.New("first"), errors.New("second\x1b[31m")).Error())
	l.With("job", "").Warn("no job")
	l.With("job", "job 13@n1").Info("fine", "tasks", 2)
	l.Debug("not shown")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:\d\d) rt-prolog\[\d+\]: error: job 12@n1: first; second\?\[31m
\S+ rt-prolog\[\d+\]: warning: no job
\S+ rt-prolog\[\d+\]: info: job 13@n1: fine tasks=2
$`)
	if !want.Match(text) {
		t.Errorf("log is\n%s", text)
	}
}

// A place that cannot be written is skipped.
func TestFallback(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing", "x")
	var last strings.Builder
	l := New(Places{Program: "p", Target: Syslog, DevLog: missing, Fallback: filepath.Join(dir, "fallback.log"), Last: &last})
	l.Info("one")
	if text, err := os.ReadFile(filepath.Join(dir, "fallback.log")); err != nil || !strings.HasSuffix(string(text), "info: one\n") {
		t.Errorf("fallback file: %q, %v", text, err)
	}
	l = New(Places{Program: "p", Target: missing, Fallback: missing, Last: &last})
	l.Info("two")
	if got := last.String(); !strings.HasSuffix(got, "info: two\n") || strings.Contains(got, "one") {
		t.Errorf("last resort got %q", got)
	}
	New(Places{Program: "p", Target: missing, Fallback: missing}).Info("lost without a panic")
}

func TestSyslog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
	l := New(Places{Program: "rt-epilog", Target: Syslog, DevLog: path})
	r := slog.NewRecord(time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC), slog.LevelError, "broken", 0)
	if err := l.With("job", "job 7@n2").Handler().Handle(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, _, err := syscall.Recvfrom(fd, buf, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^<27>Nov  2 03:04:05 rt-epilog\[\d+\]: error: job 7@n2: broken$`)
	if !want.Match(buf[:n]) {
		t.Errorf("datagram %q", buf[:n])
	}
}

// Lines of several writers never mix.
func TestConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rt.log")
	l := New(Places{Program: "p", Target: path})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				l.Info(strings.Repeat("x", 300))
			}
		})
	}
	group.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 400 {
		t.Errorf("%d lines, want 400", len(lines))
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, "info: "+strings.Repeat("x", 300)) {
			t.Fatalf("torn line %q", line)
		}
	}
}

func TestOneLine(t *testing.T) {
	long := oneLine(strings.Repeat("ä", maxLine))
	if len(long) > maxLine+3 || !strings.HasSuffix(long, "ä...") {
		t.Errorf("long message became %d bytes ending in %q", len(long), long[len(long)-6:])
	}
}
