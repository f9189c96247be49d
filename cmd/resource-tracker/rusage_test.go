package main

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The largest resident set of a command is in the ledger only if it is above the tracker's own,
// which the kernel counts too.
func TestRusageEvent(t *testing.T) {
	for _, test := range []struct {
		name               string
		maxrss, own        int64
		majflt             int64
		detail, notInThere string
	}{
		{"a small command", 12_000, 12_000, 3, " major_faults=3", "max_process_rss_kib"},
		{"a large command", 12_001, 12_000, 0, " max_process_rss_kib=12001 major_faults=0", "=12000"},
		{"the tracker's own is not known", 1_000, 0, 0, " max_process_rss_kib=1000 ", "=0 major"},
	} {
		t.Run(test.name, func(t *testing.T) {
			used := unix.Rusage{Maxrss: test.maxrss, Majflt: test.majflt}
			e := rusageEvent(&used, test.own)
			if !strings.Contains(e.Detail, test.detail) || strings.Contains(e.Detail, test.notInThere) {
				t.Errorf("%q, want %q and not %q", e.Detail, test.detail, test.notInThere)
			}
		})
	}
}
