package powerapi

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/spool"
)

// second is a time of the reports of these tests.
func second(n int) int64 { return 1_700_000_000_000 + int64(n)*1000 }

// counts is a report of one event in the second before the time. For the node it is energy.
func counts(n int, target string, count int) string {
	group, event := "core", "INSTRUCTIONS_RETIRED"
	if target == All {
		group, event = "rapl", EventPackage
	}
	return fmt.Sprintf(`{"timestamp":%d,"sensor":"n1","target":%q,"groups":{%q:{"0":{"0":{%q:%d,"time_enabled":1000000000,"time_running":1000000000}}}}}`+"\n",
		second(n), target, group, event, count)
}

// lines returns a report of each target for each second between from and to.
func lines(from, to int, targets ...string) string {
	var b strings.Builder
	for n := from; n <= to; n++ {
		for i, target := range targets {
			b.WriteString(counts(n, target, 10*(i+1)))
		}
	}
	return b.String()
}

func ignore(string, ...any) {}

func mustImport(t *testing.T, dir, text string, want int) []string {
	t.Helper()
	made, err := Import(dir, nil, nil, "reports.json", strings.NewReader(text), ignore)
	if err != nil || len(made) != want {
		t.Fatalf("made %v, want %d: %v", made, want, err)
	}
	return made
}

// last returns the last reading of a run.
func last(t *testing.T, path string) rt.Snapshot {
	t.Helper()
	r := runtest.Open(t, path)
	n, err := r.LastSeq()
	if err != nil {
		t.Fatal(err)
	}
	var s rt.Snapshot
	for snap, err := range r.Snapshots(t.Context(), n, n) {
		if err != nil {
			t.Fatal(err)
		}
		s = *snap
	}
	return s
}

func kept(t *testing.T, path string) (n int) {
	t.Helper()
	for _, err := range runtest.Open(t, path).Records(t.Context(), source) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// Tasks of an array, and jobs with the same number on two clusters, become separate runs with
// their own figures. A second import makes no run.
func TestImportSeparatesJobs(t *testing.T) {
	dir := t.TempDir()
	text := lines(1, 3, "c:10_1", "c:10_2", "a:12", "b:12", All)
	for _, path := range mustImport(t, dir, text, 4) {
		r := runtest.Open(t, path)
		run := r.Run()
		want := map[string]uint64{"c:10_1": 10, "c:10_2": 20, "a:12": 30, "b:12": 40}[run.Cluster+":"+run.Label()]
		for _, p := range last(t, path).Perf {
			if p.Group == "core" && p.Value != rt.Some(3*want) || want == 0 {
				t.Errorf("%s has %v", run.FileStem(), p)
			}
		}
		if n := kept(t, path); n != 6 {
			t.Errorf("%s has %d reports, of 3 and 3 of the node", path, n)
		}
	}
	if found, err := spool.FindJob(dir, "10_2"); err != nil || len(found) != 1 || !strings.Contains(found[0].Path, "job-10_2-n1-") {
		t.Errorf("%v, %+v", err, found)
	}
	mustImport(t, dir, text, 0)
}

// A file that has grown, or that starts earlier, is not imported again: the energy of the node would
// count twice. Reports of the time before or after are imported.
func TestImportOfAGrownFile(t *testing.T) {
	dir := t.TempDir()
	mustImport(t, dir, lines(5, 9, "c:12", All), 1)
	for want, text := range map[string]string{
		"4 of its 14 reports are not stored": lines(5, 11, "c:12", All),
		"2 of its 12 reports are not stored": lines(4, 9, "c:12", All),
		"6 of its 8 reports are not stored":  lines(9, 12, "c:12", All),
	} {
		made, err := Import(dir, nil, nil, "reports.json", strings.NewReader(text), ignore)
		if err == nil || len(made) != 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("made %v, want %q: %v", made, want, err)
		}
	}
	mustImport(t, dir, lines(6, 8, "c:12", All), 0) // all are stored
	mustImport(t, dir, lines(10, 12, "c:12", All), 1)
	mustImport(t, dir, lines(1, 4, "c:12", All), 1)
	mustImport(t, dir, lines(5, 9, "c:13", All), 1)
}

// The import stores no reports that rt made of the run. It stores no figures of other sensors that rt has for the
// same target.
func TestImportOfOurOwn(t *testing.T) {
	dir := t.TempDir()
	run, snapshots := poweredRun(), poweredSnapshots()
	run.Start = time.Unix(0, snapshots[0].Wall)
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range snapshots {
		if err := w.Put(&snapshots[i]); err != nil {
			t.Fatal(err)
		}
	}
	run.End = time.Unix(0, snapshots[4].Wall)
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	before := map[string]string{}
	for _, format := range []string{"powerapi-hwpc", "powerapi-power", "powerapi-procfs"} {
		before[format] = exportedAs(t, runtest.Open(t, w.Path()), format)
	}
	for _, text := range before {
		mustImport(t, dir, text, 0)
	}
	if n := kept(t, w.Path()); n != 0 {
		t.Errorf("%d reports of rt are stored with their run", n)
	}
	mustImport(t, dir, lines(1, 3, All), 0)
	if n := kept(t, w.Path()); n != 3 {
		t.Errorf("%d reports of another sensor are stored, of 3 of the node", n)
	}
	for format, text := range before {
		if d := cmp.Diff(text, exportedAs(t, runtest.Open(t, w.Path()), format)); d != "" {
			t.Errorf("%s (-want +got):\n%s", format, d)
		}
	}
}

// A power is valid at its time only: later readings have none. The parts of the node add up, and a
// part that two formulas report counts once.
func TestImportOfPower(t *testing.T) {
	power := func(n int, scope, socket string, watts int) string {
		return fmt.Sprintf(`{"timestamp":%d,"sensor":"n1","target":"all","power":%d,"metadata":{"scope":%q,"socket":%q}}`+"\n", second(n), watts, scope, socket)
	}
	var text strings.Builder
	for n := range 2 {
		for _, part := range []struct {
			scope, socket string
			watts         int
		}{{"cpu", "0", 50}, {"cpu", "0", 50}, {"cpu", "1", 60}, {"dram", "0", 5}} {
			text.WriteString(power(n, part.scope, part.socket, part.watts+n))
		}
	}
	path := mustImport(t, t.TempDir(), text.String()+lines(2, 4, All), 1)[0]
	var watts []rt.Opt[float64]
	for s, err := range runtest.Open(t, path).Snapshots(t.Context(), 1, 6) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range s.Energy {
			if e := &s.Energy[i]; e.Kind == rt.EnergyNode {
				watts = append(watts, e.Power)
			}
		}
	}
	none := rt.None[float64]()
	if d := cmp.Diff(fmt.Sprint([]rt.Opt[float64]{none, rt.Some(115.0), rt.Some(118.0), none, none, none}), fmt.Sprint(watts)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	others, err := Sensors(t.Context(), runtest.Open(t, path))
	if err != nil || len(others) != 2 || others[1].MeanWatts != rt.Some(116.5) {
		t.Errorf("%v, %+v", err, others)
	}
}

// The run of a job has the reports of the node in the time of the job. The others are counted in a
// message.
func TestImportOfAJobsTime(t *testing.T) {
	dir := t.TempDir()
	text := lines(1, 3, All) + lines(4, 6, All, "c:12") + lines(7, 10, All)
	var said bytes.Buffer
	made, err := Import(dir, nil, nil, "reports.json", strings.NewReader(text), func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) })
	if err != nil || len(made) != 1 {
		t.Fatalf("%v, %v", made, err)
	}
	run := runtest.Open(t, made[0]).Run()
	if run.Start.UnixMilli() != second(3) || run.End.UnixMilli() != second(6) || kept(t, made[0]) != 6 {
		t.Errorf("from %s to %s, %d reports", run.Start, run.End, kept(t, made[0]))
	}
	for _, p := range last(t, made[0]).Perf {
		if want := map[string]uint64{"core": 60, "rapl": 30}[p.Group]; p.Value != rt.Some(want) {
			t.Errorf("%+v, want %d", p, want)
		}
	}
	if want := "7 other reports of n1 are of times without a job, and are not stored"; !strings.Contains(said.String(), want) {
		t.Errorf("the message is %q, want %q", said.String(), want)
	}
}

// An old power of a meter is not valid any more.
func TestPowerOfAMeterIsHeldForAMinute(t *testing.T) {
	m := NewMaker(new(poweredRun()), 0)
	at := func(secs int64) *rt.Snapshot { return &rt.Snapshot{Wall: secs * 1e9, Boot: secs * 1e9} }
	first := at(1)
	first.Energy = []rt.EnergyReading{{Source: "hwmon", Domain: "power_meter", Kind: rt.EnergyNode, Power: rt.Some(300.0)}}
	for _, tt := range []struct {
		from, to *rt.Snapshot
		figure   bool
	}{{at(0), first, true}, {first, at(61), true}, {at(61), at(62), false}} {
		if node, _ := m.power(tt.from, tt.to); (node != nil) != tt.figure {
			t.Errorf("at %d ns: %+v", tt.to.Boot, node)
		}
	}
}

// All rows of a table have the same events: CPUs that counted fewer are left out and reported.
func TestRowsWithoutAnEventAreReported(t *testing.T) {
	s := poweredSnapshots()
	for i := range s {
		s[i].Perf = append(s[i].Perf, rt.PerfReading{Group: "node", Event: "page-faults",
			Value: rt.Some(uint64(i)), TimeEnabled: rt.Some(uint64(i)), TimeRunning: rt.Some(uint64(i))})
	}
	var out bytes.Buffer
	err := ExportGroupCSV(t.Context(), &out, runtest.Spool(t, poweredRun(), s), GroupCore)
	if err == nil || !strings.HasSuffix(err.Error(), "left out: 4 of all") || strings.Count(out.String(), "\n") != 1+2*4 {
		t.Errorf("%v\n%s", err, out.String())
	}
}
