package runs

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
)

// For any names of runs and any width of the terminal, no line of the table is too long. The columns that ls always
// prints are the limit: job, state, outcome, unsent, size and age.
func TestTableFitsTheTerminal(t *testing.T) {
	long := strings.Repeat("näme-", 20)
	runs := []Listed{
		{Run: &rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](12), Node: "n1", Start: time.Now()}, Allocation: rt.Allocation{User: "anna"}, Ending: rt.Ending{State: rt.StateRunning}}, Live: true},
		{Run: &rt.Run{
			Identity: rt.Identity{
				JobID: rt.Some[uint64](1234567), ArrayJobID: rt.Some[uint64](1234560), ArrayTaskID: rt.Some[uint64](17), Node: "node-0001.cluster.example.org",
				Start: time.Now().Add(-time.Hour),
			},
			Allocation: rt.Allocation{User: "a-very-long-user-name"},
			Meta:       rt.Metadata{JobName: long},
			Ending: rt.Ending{
				End:   time.Now(),
				State: rt.StateDelivered, Outcome: rt.OutcomeCancelled,
			},
		}, SizeBytes: 123456789, Snapshots: 86400, Unsent: 86400},
		{Path: "/var/spool/rt/" + long + ".db", Error: "damaged"},
	}
	for _, width := range []int{70, 80, 100, 132, 200, 0} {
		var out bytes.Buffer
		if err := PrintList(&out, runs, width); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		for _, line := range lines[:4] {
			if n := utf8.RuneCountInString(line); width > 0 && n > width {
				t.Errorf("%d columns: %d characters in %q", width, n, line)
			}
		}
		for _, head := range []string{"JOB", "STATE", "OUTCOME", "UNSENT", "KIB", "AGE"} {
			if !strings.Contains(lines[0], head) {
				t.Errorf("%d columns: no %s in %q", width, head, lines[0])
			}
		}
		if named := strings.Contains(out.String(), "(--wide for "); named != (width > 0 && !strings.Contains(lines[0], "STARTED")) {
			t.Errorf("%d columns: whether the last line names what is left out: %v\n%s", width, named, out.String())
		}
		if width == 0 && !strings.Contains(out.String(), long) {
			t.Errorf("all columns, and a name is cut: %s", out.String())
		}
	}
}
