//go:build powerapi

package powerapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
)

// TestPowerAPIReads has the inputs of a real PowerAPI read what export writes and what
// is sent to a formula: JSON, CSV, and its socket. RT_POWERAPI is a Python that has it.
func TestPowerAPIReads(t *testing.T) {
	snapshots := poweredSnapshots()
	for i := range snapshots {
		snapshots[i].Steps = []rt.StepReading{{Step: "batch", CPUUsage: rt.Some(uint64(i) * 500_000)}}
	}
	r := runtest.Spool(t, poweredRun(), snapshots)
	dir := t.TempDir()
	for name, write := range map[string]func(io.Writer) error{
		"hwpc.json":   func(w io.Writer) error { return ExportJSON(t.Context(), w, r, "hwpc") },
		"power.json":  func(w io.Writer) error { return ExportJSON(t.Context(), w, r, "power") },
		"procfs.json": func(w io.Writer) error { return ExportJSON(t.Context(), w, r, "procfs") },
		"core.csv":    func(w io.Writer) error { return ExportGroupCSV(t.Context(), w, r, "core") },
		"rapl.csv":    func(w io.Writer) error { return ExportGroupCSV(t.Context(), w, r, "rapl") },
		"power.csv":   func(w io.Writer) error { return ExportCSV(t.Context(), w, r, "power") },
		"procfs.csv":  func(w io.Writer) error { return ExportCSV(t.Context(), w, r, "procfs") },
	} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Getenv("RT_POWERAPI"), "testdata/read.py", dir)
	cmd.Env = append(os.Environ(), "TZ=UTC")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: RT_POWERAPI names a Python with powerapi, contrib/test/powerapi makes one", err)
	}
	sent := make(chan []Report, 1)
	got := map[string][]map[string]any{}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var doc map[string]any
		if err := json.Unmarshal(lines.Bytes(), &doc); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		if address, ok := doc["address"]; ok { // the formula listens
			go func() { sent <- sendPower(t, address.(string), snapshots) }()
			continue
		}
		key := doc["source"].(string) + " " + doc["kind"].(string)
		got[key] = append(got[key], doc)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	for key, want := range map[string]int{"json hwpc": 8, "json power": 12, "json procfs": 4, "csv hwpc": 8, "csv power": 12, "csv procfs": 8, "socket power": 12} {
		if len(got[key]) != want {
			t.Errorf("%s: PowerAPI has read %d reports, of %d", key, len(got[key]), want)
		}
	}
	for i, report := range <-sent {
		p := report.(*PowerReport)
		want := map[string]any{"kind": "power", "ms": float64(p.Time.UnixMilli()), "sensor": "n1", "target": p.Target, "value": p.Power}
		for _, source := range []string{"json", "csv", "socket"} {
			want["source"] = source
			if all := got[source+" power"]; i < len(all) {
				if d := cmp.Diff(want, all[i]); d != "" {
					t.Errorf("%s, report %d (-want +got):\n%s", source, i, d)
				}
			}
		}
	}
	if d := cmp.Diff(got["json hwpc"][1]["value"], got["csv hwpc"][0]["value"]); d != "" {
		t.Errorf("the job's counters differ between JSON and CSV:\n%s", d)
	}
}

// sendPower sends the reports of power to the formula, and returns them.
func sendPower(t *testing.T, address string, snapshots []rt.Snapshot) (sent []Report) {
	s, _ := startSender(t, address, 100)
	m := NewMaker(new(poweredRun()), 0)
	for i := 1; i < len(snapshots); i++ {
		node, jobs := m.Reports("power", &snapshots[i-1], &snapshots[i])
		for _, report := range append([]Report{node}, jobs...) {
			line, err := report.AppendJSON(nil, Millis)
			if err != nil {
				t.Error(err)
			}
			s.queue.putLine(line)
			sent = append(sent, report)
		}
	}
	return sent
}
