package powerapi

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/spool"
)

// exportedAs returns a run in one of the formats of rt-spool export.
func exportedAs(t *testing.T, r *spool.Reader, format string) string {
	t.Helper()
	var out bytes.Buffer
	var err error
	name := strings.TrimPrefix(format, "powerapi-")
	kind, isCSV := strings.CutSuffix(name, "-csv")
	switch {
	case !isCSV:
		err = ExportJSON(t.Context(), &out, r, name)
	case kind == GroupCore || kind == GroupRAPL:
		err = ExportGroupCSV(t.Context(), &out, r, kind)
	default:
		err = ExportCSV(t.Context(), &out, r, kind)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestExportPowerAPI(t *testing.T) {
	r := runtest.Spool(t, poweredRun(), poweredSnapshots())
	first := func(format string) string {
		lines := strings.SplitAfterN(exportedAs(t, r, format), "\n", 3)
		return lines[0] + lines[1]
	}
	const count = 100 * 4294967296
	for format, want := range map[string]string{
		"powerapi-hwpc": `{"timestamp":"2023-11-14T22:13:21.000","sensor":"n1","target":"all","groups":{"rapl":{"0":{"0":{"RAPL_ENERGY_PKG":429496729600,"time_enabled":1000000000,"time_running":1000000000}},"1":{"0":{"RAPL_ENERGY_PKG":429496729600,"time_enabled":1000000000,"time_running":1000000000}}}},"metadata":{"rt":"hwpc"}}
{"timestamp":"2023-11-14T22:13:21.000","sensor":"n1","target":"lab:12","groups":{"core":{"0":{"0":{"page-faults":1000,"task-clock":1000,"time_enabled":1000000000,"time_running":1000000000}},"1":{"1":{"page-faults":1001,"task-clock":1001,"time_enabled":1000000000,"time_running":1000000000}}}},"metadata":{"rt":"hwpc"}}
`,
		"powerapi-power": `{"timestamp":"2023-11-14T22:13:21.000","sensor":"n1","target":"all","power":200,"metadata":{"of":"package","rt":"power"}}
{"timestamp":"2023-11-14T22:13:21.000","sensor":"n1","target":"lab:12","power":0,"metadata":{"idle_watts":200,"method":"cpu time","of":"package","rt":"power"}}
`,
		"powerapi-core-csv":   "timestamp,sensor,target,socket,cpu,page-faults,task-clock,time_enabled,time_running\n1700000001000,n1,lab:12,0,0,1000,1000,1000000000,1000000000\n",
		"powerapi-rapl-csv":   "timestamp,sensor,target,socket,cpu,RAPL_ENERGY_PKG,time_enabled,time_running\n1700000001000,n1,all,0,0,429496729600,1000000000,1000000000\n",
		"powerapi-power-csv":  "timestamp,sensor,target,power\n1700000001000,n1,all,200\n",
		"powerapi-procfs-csv": "timestamp,sensor,target,usage,global_cpu_usage\n1700000001000,n1,lab:12,25,50\n",
		"powerapi-procfs": `{"timestamp":"2023-11-14T22:13:21.000","sensor":"n1","target":["lab:12"],"usage":{"lab:12":25},"global_cpu_usage":50,"metadata":{"rt":"procfs"}}
{"timestamp":"2023-11-14T22:13:22.000","sensor":"n1","target":["lab:12"],"usage":{"lab:12":25},"global_cpu_usage":50,"metadata":{"rt":"procfs"}}
`,
	} {
		if d := cmp.Diff(want, first(format)); d != "" {
			t.Errorf("%s (-want +got):\n%s", format, d)
		}
	}
	if count != 429496729600 {
		t.Error("100 J have another count")
	}
}

// Events of the node and of the job are distinguished by their targets, in export and import.
func TestNodeEventsAreNotTheJobs(t *testing.T) {
	s := poweredSnapshots()
	for i := range s {
		s[i].Perf = append(s[i].Perf, rt.PerfReading{Group: "node", Event: "page-faults",
			Value: rt.Some(uint64(i) * 7000), TimeEnabled: rt.Some(uint64(i) * 1e9), TimeRunning: rt.Some(uint64(i) * 1e9)})
	}
	text := exportedAs(t, runtest.Spool(t, poweredRun(), s), "powerapi-hwpc")
	if !strings.Contains(text, `"target":"all","groups":{"core":{"0":{"0":{"page-faults":7000,`) {
		t.Errorf("the page faults of the node are missing:\n%s", text)
	}
	made, err := Import(t.TempDir(), nil, nil, "reports.json", strings.NewReader(text), ignore)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]uint64{}
	for snap, err := range runtest.Open(t, made[0]).Snapshots(t.Context(), 5, 5) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range snap.Perf {
			if p := &snap.Perf[i]; p.Event == "page-faults" {
				sums[p.Group] += p.Value.Or(0)
			}
		}
	}
	if sums["core"] != 4*2001 || sums["node"] != 4*7000 {
		t.Errorf("%v", sums)
	}
}

// A job with half of the CPU time gets half of the power above the idle power of the node.
func TestPowerIsShared(t *testing.T) {
	s := poweredSnapshots()
	m := NewMaker(new(poweredRun()), 120)
	step := func(name string, used uint64) rt.StepReading {
		return rt.StepReading{Step: name, CPUUsage: rt.Some(used)}
	}
	s[0].Steps = []rt.StepReading{step("batch", 100)}
	s[1].Steps = []rt.StepReading{step("batch", 250_100), step("0", 750_000), {Step: "0", Task: rt.Some[uint64](0), CPUUsage: rt.Some[uint64](750_000)}, {Step: "1"}}
	node, jobs := m.power(&s[0], &s[1])
	if p := node.(*PowerReport).Power; p != 200 {
		t.Errorf("the node has %g W", p)
	}
	want := map[string]float64{"lab:12": 40, "lab:12.batch": 10, "lab:12.0": 30}
	for _, r := range jobs {
		if p := r.(*PowerReport); math.Abs(p.Power-want[p.Target]) > 1e-6 {
			t.Errorf("%s has %g W", p.Target, p.Power)
		}
	}
	_, procfs := m.procfs(&s[0], &s[1])
	usage := procfs[0].(*ProcfsReport)
	if d := cmp.Diff(map[string]float64{"lab:12": 25, "lab:12.batch": 6.25, "lab:12.0": 18.75}, usage.Usage); d != "" || len(jobs) != 3 || len(usage.Targets) != 3 {
		t.Errorf("%d reports of power, %v (-want +got):\n%s", len(jobs), usage.Targets, d)
	}
}

// Imported reports give the counters and the energy of the export, and are stored unchanged.
func TestImportPowerAPI(t *testing.T) {
	text := exportedAs(t, runtest.Spool(t, poweredRun(), poweredSnapshots()), "powerapi-hwpc")
	made, err := Import(t.TempDir(), nil, nil, "reports.json", strings.NewReader(text+`{"timestamp":1,"sensor":"n1"}`), ignore)
	if err == nil || !strings.Contains(err.Error(), "no target") || len(made) != 1 {
		t.Fatalf("%v, %v", made, err)
	}
	r := runtest.Open(t, made[0])
	if run := r.Run(); run.Cluster != "lab" || run.JobID != rt.Some[uint64](12) || run.Node != "n1" || run.State != rt.StateEnded {
		t.Errorf("%+v", run)
	}
	if d := cmp.Diff(text, exportedAs(t, r, "powerapi-hwpc")); d != "" {
		t.Errorf("exported again (-want +got):\n%s", d)
	}
	var kept strings.Builder
	for rec, err := range r.Records(t.Context(), "powerapi") {
		if err != nil {
			t.Fatal(err)
		}
		kept.Write(append(rec.Body, '\n'))
	}
	if d := cmp.Diff(text, kept.String()); d != "" {
		t.Errorf("records (-want +got):\n%s", d)
	}
	if problems := r.Verify(t.Context()); len(problems) > 0 {
		t.Errorf("%v", problems)
	}
}

// The examples of the format's page, which name no job, and CSV.
func TestImportPowerAPIPage(t *testing.T) {
	a, err := txtar.ParseFile("testdata/page.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		made, err := Import(t.TempDir(), nil, nil, f.Name, bytes.NewReader(f.Data), ignore)
		if err != nil || len(made) == 0 {
			t.Errorf("%s: %v, %v", f.Name, made, err)
			continue
		}
		n := 0
		for _, path := range made {
			for rec, err := range runtest.Open(t, path).Records(t.Context(), "") {
				if err != nil || !json.Valid(rec.Body) {
					t.Errorf("%s: %v, %s", f.Name, err, rec.Body)
				}
				n++
			}
		}
		if n == 0 {
			t.Errorf("%s: nothing is stored", f.Name)
		}
	}
}

func TestImportPowerAPIOfNothing(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "  \n", "{}", "a,b\n1,2\n", "[1,2]", "\x00"} {
		made, err := Import(dir, nil, nil, "x", strings.NewReader(text), ignore)
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if err == nil || len(made) != 0 || len(left) != 0 {
			t.Errorf("%q made %v, %v: %v", text, made, left, err)
		}
	}
	_ = os.Remove(dir) // it is empty
}
