package report

import (
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// The first line names what was tracked, and a job's name is not lost behind a long command.
func TestTitle(t *testing.T) {
	long := rt.Run{Command: []string{"python3", "-c", strings.Repeat("x", 99)}, Meta: rt.Metadata{JobName: "demo"}}
	for want, s := range map[string]*Summary{
		"Job 12  md":                {Label: "12", Run: rt.Run{Meta: rt.Metadata{JobName: "md"}}},
		"Job 12+1 (job id 13)  het": {Label: "13", Run: rt.Run{Identity: rt.Identity{JobID: u(13), HetJobID: u(12), HetJobOffset: u(1)}, Meta: rt.Metadata{JobName: "het"}}},
		"Process 7":                 {Label: "-", Scope: ScopeTree, Run: rt.Run{Identity: rt.Identity{Node: "n1"}, PID: rt.Some[uint64](7)}},
		"Node n1":                   {Label: "-", Scope: ScopeNode, Run: rt.Run{Identity: rt.Identity{Node: "n1"}}},
		"Run":                       {Label: "-", Scope: ScopeNode},
		"Command sim":               {Label: "-", Scope: ScopeTree, Run: rt.Run{Command: []string{"sim"}, PID: rt.Some[uint64](7)}},
		"Command pyth":              {Label: "-", Run: long},
	} {
		var b strings.Builder
		if err := WriteText(&b, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC, Width: 80}); err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(b.String(), "\n")
		isExact := s.Run.Command != nil || first == want
		if !strings.HasPrefix(first, want) || !isExact || len(first) > 80 {
			t.Errorf("%q, want %q", first, want)
		}
		isCut := strings.HasSuffix(first, "x...  demo") && len(first) == 80
		if s.Run.Meta.JobName == "demo" && !isCut {
			t.Errorf("%q", first)
		}
	}
}

// The source of the outcome is shown only on request.
func TestOutcomeSource(t *testing.T) {
	s := &Summary{Label: "12", Run: rt.Run{Ending: rt.Ending{Outcome: rt.OutcomeOOM, OutcomeSource: "kernel"}}}
	for isVerbose, want := range map[bool]string{false: "\nOutcome      oom (killed for memory)\n", true: "\nOutcome      oom (killed for memory) (source: kernel)\n"} {
		var b strings.Builder
		if err := WriteText(&b, Jobs([]*Summary{s})[0], TextOptions{Zone: time.UTC, Verbose: isVerbose}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("verbose %t: %q is missing in\n%s", isVerbose, want, b.String())
		}
	}
}
