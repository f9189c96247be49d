package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// What the start has mapped of the program's file is given back, and the program goes on.
func TestUnmapUnused(t *testing.T) {
	resident := func() (kib int) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, figure, _ := strings.Cut(string(status), "RssFile:")
		if _, err := fmt.Sscan(figure, &kib); err != nil {
			t.Fatal(err)
		}
		return kib
	}
	before := resident()
	unmapUnused()
	if after := resident(); after >= before {
		t.Errorf("%d KiB of files are mapped, %d before", after, before)
	}
}
