package launch

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A tracker uses no transparent huge pages, and the Prolog uses them again afterwards.
func TestTrackerHasNoHugePages(t *testing.T) {
	hugePages := func() int {
		t.Helper()
		isDisabled, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return isDisabled
	}
	before := hugePages()
	h, _ := newHook(t, "")
	fake := "#!/usr/bin/awk -f\nBEGIN { while (getline < \"/proc/self/status\") if (/^THP_enabled/) print \"error: \" $0 >\"/dev/fd/3\" }\n"
	if err := os.WriteFile(h.Tracker, []byte(fake), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := h.Prolog(prolog12); err == nil || !strings.HasSuffix(err.Error(), "THP_enabled:\t0") {
		t.Errorf("the tracker reports %v", err)
	}
	if after := hugePages(); after != before {
		t.Errorf("PR_GET_THP_DISABLE is %d after the Prolog, %d before", after, before)
	}
}
