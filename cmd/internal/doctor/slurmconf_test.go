package doctor

import (
	"context"
	"os"
	"strings"
	"testing"
)

// TestRealSettings checks a node with the output of scontrol show config of Slurm 22.05.8.
func TestRealSettings(t *testing.T) {
	text, err := os.ReadFile("testdata/scontrol-22.05.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t)
	answer := string(text)
	m.cgroupV1()
	m.Command = func(ctx context.Context, name string, args ...string) ([]byte, error) {
		if name == "scontrol" {
			return []byte(answer), nil
		}
		return m.command(ctx, name, args...)
	}
	slurmChecks := 0
	for _, c := range m.Run(t.Context(), Node) {
		if c.Status != OK {
			t.Errorf("%+v", c)
		}
		if strings.HasPrefix(c.Name, "slurm.") {
			slurmChecks++
		}
	}
	if slurmChecks < 12 {
		t.Errorf("%d checks of Slurm, want at least 12", slurmChecks)
	}

	answer = strings.Replace(answer, "PrologEpilogTimeout     = 65534", "PrologEpilogTimeout     = 5", 1)
	if checks := m.Run(t.Context(), Node); Worst(checks) != Failure {
		t.Errorf("PrologEpilogTimeout=5 is not found:\n%s", printed(t, checks))
	}
}

// TestLists: entries of Prolog with and without numbers are one list.
func TestLists(t *testing.T) {
	s := slurmSettings{values: parseSettings("Prolog[0] = /a\nProlog[1]=/b # c\nEpilog = (null)\nno setting\n")}
	if got := strings.Join(s.list("prolog"), " "); got != "/a /b" {
		t.Errorf("Prolog is %q", got)
	}
	if got := s.list("Epilog"); len(got) != 0 {
		t.Errorf("Epilog is %q", got)
	}
}
