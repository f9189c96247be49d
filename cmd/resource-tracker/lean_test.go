package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestUnmapUnused: the pages of the program's file that the start has mapped are released,
// and the program continues to run.
func TestUnmapUnused(t *testing.T) {
	// The pages of a program count as RssShmem where its file is on a tmpfs, as the go
	// command's temporary directory may be.
	resident := func() (kib int) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"RssFile:", "RssShmem:"} {
			var part int
			_, figure, _ := strings.Cut(string(status), key)
			if _, err := fmt.Sscan(figure, &part); err != nil {
				t.Fatalf("%s of /proc/self/status: %v", key, err)
			}
			kib += part
		}
		return kib
	}
	before := resident()
	unmapUnused()
	if after := resident(); after >= before {
		t.Errorf("%d KiB of files are mapped, %d KiB before", after, before)
	}
}
