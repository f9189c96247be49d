package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// release makes testdata/0.2.0 again. After that release its files stay as they are.
var release = flag.Bool("release", false, "write testdata/0.2.0 again")

// releasedFiles makes a run of each kind.
var releasedFiles = map[string]func(*rt.Run, *machine){
	"job": func(run *rt.Run, m *machine) {
		run.Account, run.Partition, run.NumNodes = "physics", "long", rt.Some[uint64](1)
		m.withJob(2)
	},
	"tree": func(run *rt.Run, m *machine) {
		run.JobID, run.PID, run.Command = rt.None[uint64](), rt.Some[uint64](4711), []string{"sleep", "5"}
		m.snap.Job = rt.JobReading{}
		m.snap.Tree.CPUUserTicks, m.snap.Tree.RSS = rt.Some[uint64](7), rt.Some[uint64](1<<30)
	},
	"task": func(run *rt.Run, m *machine) {
		run.Step, run.StepTasks = "0", rt.Some[uint64](2)
	},
	"imported": func(run *rt.Run, m *machine) {
		run.TrackerVersion, run.Interval = "", 10
		m.snap.CPUs, m.snap.Procs = nil, nil
	},
}

func writeRelease(t *testing.T, kind string) {
	t.Helper()
	run, m := testRun(), newMachine(2, 1)
	run.TrackerVersion = "0.2.0"
	releasedFiles[kind](&run, m)
	w, err := Create(t.TempDir(), run, rt.Host{HostName: "n1", VCPUs: rt.Some[uint64](2)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	w.Event(rt.Event{Time: start, Kind: "sensor", Name: "energy", Status: "ok", Detail: "RAPL"})
	var want bytes.Buffer
	for range 4 {
		s := m.next()
		if kind == "tree" {
			s.Job = rt.JobReading{}
		}
		if err := w.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	run.Outcome = rt.OutcomeFinished
	err = errors.Join(w.Record(rt.ForeignReport{Time: start.UnixNano(), Source: "other", Body: []byte(`{"a":1}`)}), w.End(run))
	if err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	for _, s := range collect(t, r, 1, 0) {
		line, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%s\n", line)
	}
	data, err := os.ReadFile(w.Path())
	err = errors.Join(err, os.WriteFile(releasedFile(kind), data, 0o644), os.WriteFile(filepath.Join("testdata/0.2.0", kind+".jsonl"), want.Bytes(), 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

func releasedFile(kind string) string { return filepath.Join("testdata/0.2.0", kind+".db") }

// has reports whether got has everything that want has, and more in its objects only.
func has(got, want any) bool {
	w, isObject := want.(map[string]any)
	if list, isList := want.([]any); isList {
		g, _ := got.([]any)
		for i := range list {
			if len(g) != len(list) || !has(g[i], list[i]) {
				return false
			}
		}
		return len(g) == len(list)
	}
	if !isObject {
		return reflect.DeepEqual(got, want)
	}
	g, _ := got.(map[string]any)
	for name := range w {
		if !has(g[name], w[name]) {
			return false
		}
	}
	return true
}

// The files of the first release can be read, verified, delivered and removed, with all that they have.
func TestFilesOfTheFirstRelease(t *testing.T) {
	for kind := range releasedFiles {
		if *release {
			writeRelease(t, kind)
		}
		data, err := os.ReadFile(releasedFile(kind))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), kind+".db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		r := mustOpen(t, path)
		for _, p := range r.Verify(t.Context()) {
			t.Errorf("%s: verify: %s", kind, p.What)
		}
		hasReleased(t, r, kind)
		events, err := r.Events()
		if err != nil || len(events) != 1 || events[0].Detail != "RAPL" {
			t.Errorf("%s: events %+v, %v", kind, events, err)
		}
		hasReleased(t, restored(t, recordOf(t, r)), kind)
		if err := errors.Join(r.Delivery().MarkDelivered(time.Now()), r.Remove()); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// hasReleased compares the snapshots of a run with the snapshots of the release, and counts them in
// the view.
func hasReleased(t *testing.T, r *Reader, kind string) {
	t.Helper()
	golden, err := os.ReadFile(filepath.Join("testdata/0.2.0", kind+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	list := collect(t, r, 1, 0)
	lines := bytes.Split(bytes.TrimSpace(golden), []byte("\n"))
	if len(list) != len(lines) || len(list) != 4 {
		t.Fatalf("%s: %d snapshots, want %d", kind, len(list), len(lines))
	}
	for i, line := range lines {
		var want, got any
		now, err := json.Marshal(list[i])
		if err := errors.Join(err, json.Unmarshal(line, &want), json.Unmarshal(now, &got)); err != nil {
			t.Fatal(err)
		}
		if !has(got, want) {
			t.Errorf("%s: snapshot %d is\n%s, and was\n%s", kind, i+1, now, line)
		}
	}
	if got := view(t, r, "SELECT count(*), sum(net_rx_bytes_per_s > 0) FROM sample"); got != "4 3\n" {
		t.Errorf("%s: the view sample has %q", kind, got)
	}
}
