package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/e2e/fakesacct"
	"github.com/resource-tracker/rt/e2e/strict"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// The test binary is also the programs that the scripts run.
func TestMain(m *testing.M) {
	// Screens and scripts wait for programs: more of them run at once than there are processors.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"rt-spool": main, "rt-job": main, "fakesacct": fakesacct.Main, "render": render})
}

const testToken = "token-that-no-output-may-hold"

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for _, name := range []string{"SENTINEL_API_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "HTTP_PROXY", "http_proxy"} {
				e.Setenv(name, "")
			}
			e.Setenv("GORACE", "atexit_sleep_ms=0") // of the many short processes, under -race
			e.Setenv("LANG", "C.UTF-8")
			e.Setenv("TZ", "UTC")
			if err := os.WriteFile(filepath.Join(e.WorkDir, "token"), []byte(testToken+"\n"), 0o600); err != nil {
				return err
			}
			if err := os.Mkdir(filepath.Join(e.WorkDir, "spool"), 0o755); err != nil {
				return err
			}
			return writeConfig(e.WorkDir, "http://127.0.0.1:1") // nothing listens on port 1
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"run": cmdRun, "receiver": cmdReceiver, "received": cmdReceived, "damage": cmdDamage, "lock": cmdLock, "cut": cmdCut, "sample": cmdSample, "command": cmdCommand, "history": cmdHistory, "task": cmdTask, "site": cmdSite, "api": cmdAPI, "links": cmdLinks, "terminal": cmdTerminal, "advice": cmdAdvice,
		},
	})
}

func writeConfig(dir, endpoint string) error {
	text := fmt.Sprintf("[spool]\ndir = %q\n[tracker]\nstate_dir = %q\n[sentinel]\nendpoint = %q\ns3_endpoint = %q\ntoken_file = %q\n[site]\nsqueue = \"off\"\n[drain]\nsacct = \"off\"\n",
		filepath.Join(dir, "spool"), filepath.Join(dir, "state"), endpoint, endpoint, filepath.Join(dir, "token"))
	return os.WriteFile(filepath.Join(dir, "rt.toml"), []byte(text), 0o644)
}

// cmdRun puts a run into the spool. run JOB NODE [running|live] [here] makes one of four snapshots.
// The job uses 1.5 s of CPU time in 3 s and peaks at 64 MiB. The run has ended, lost its tracker,
// or is tracked until run JOB NODE end takes two more. With here it is a run since the boot of this
// machine.
func cmdRun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: run JOB NODE [running|live] [here]")
	}
	var job uint64
	if _, err := fmt.Sscan(args[0], &job); err != nil {
		ts.Fatalf("job %q: %v", args[0], err)
	}
	if len(args) > 2 && args[2] == "end" {
		end, _ := trackerEnds.Load(ts.MkAbs(args[0]))
		end.(func())()
		return
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(job) * time.Minute)
	run := rt.Run{
		Identity: rt.Identity{
			Cluster: "c", JobID: rt.Some(job), Node: args[1],
			BootID: "another-boot", Start: start,
		},
		Allocation: rt.Allocation{
			Scheduler: "slurm", User: "anna", Account: "chem",
			AllocCPUs: rt.Some[uint64](2),
		},
		Meta:   rt.Metadata{JobName: "md"},
		Ending: rt.Ending{State: rt.StateRunning},
	}
	if slices.Contains(args, "here") {
		boot, err := host.BootID("/proc")
		ts.Check(err)
		run.BootID = boot
	}
	w, err := spool.Create(ts.MkAbs("spool"), run, rt.Host{HostName: args[1]}, spool.Options{})
	ts.Check(err)
	for i := range int64(4) {
		s := snapshot(i, start)
		ts.Check(w.Put(&s))
	}
	if len(args) > 2 && args[2] == "live" {
		ts.Check(w.Flush())
		trackerEnds.Store(ts.MkAbs(args[0]), func() {
			for i := int64(4); i < 6; i++ {
				s := snapshot(i, start)
				ts.Check(w.Put(&s))
			}
			ts.Check(w.End(run))
		})
		return
	}
	if len(args) > 2 && args[2] == "running" {
		ts.Check(w.Close())
		return
	}
	run.Apply(rt.Exit{Code: rt.Some[int64](7), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFailed, Source: "epilog", Time: start.Add(3 * time.Second)})
	ts.Check(w.End(run))
}

// cmdCommand puts the run of a command into the spool: command PID. Its last reading
// was taken when its processes had ended.
func cmdCommand(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.ParseUint(args[0], 10, 64)
	ts.Check(err)
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := rt.Run{
		Identity:   rt.Identity{Node: "n1", BootID: "another-boot", Start: start},
		Allocation: rt.Allocation{User: "anna"},
		PID:        rt.Some(pid),
		Command:    []string{"make"},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(ts.MkAbs("spool"), run, rt.Host{HostName: "n1"}, spool.Options{})
	ts.Check(err)
	for i := range int64(4) {
		s := snapshot(i, start)
		s.Job = rt.JobReading{}
		s.Tree = rt.TreeReading{
			CPUUserTicks: rt.Some(uint64(40 * i)), CPUSystemTicks: rt.Some(uint64(10 * i)), Children: rt.Some[uint64](2), RSS: rt.Some[uint64](40 << 20), PSS: rt.Some[uint64](32 << 20),
		}
		if i == 3 {
			s.Tree.Children, s.Tree.RSS, s.Tree.PSS = rt.Some[uint64](0), rt.Some[uint64](0), rt.None[uint64]()
		}
		ts.Check(w.Put(&s))
	}
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "exit", Time: start.Add(3 * time.Second)})
	ts.Check(w.End(run))
}

// trackerEnds has the ends of the trackers that "run JOB NODE live" has started, by the script's directory and the job.
var trackerEnds sync.Map

func snapshot(i int64, start time.Time) rt.Snapshot {
	s := rt.Snapshot{
		Seq: i + 1, Wall: start.UnixNano() + i*1e9, Boot: 500e9 + i*1e9,
		Node: rt.NodeReading{
			CPU:  rt.Some(rt.CPUTimes{User: uint64(1000 + 50*i), Idle: uint64(9000 + 150*i)}),
			CPUs: rt.Some[uint64](2), Processes: rt.Some[uint64](90),
			NetRxBytes: rt.Some(uint64(1000 * i)), NetTxBytes: rt.Some(uint64(2000 * i)),
		},
	}
	switch {
	case i == 0:
		s.Reason, s.Job.Phase = rt.ReasonFirst, rt.JobPending
		return s
	case i == 3:
		s.Reason = rt.ReasonLast
	}
	s.Job = rt.JobReading{
		Phase: rt.JobPresent, CPUUsage: rt.Some(uint64(500_000 * i)), CPUUser: rt.Some(uint64(400_000 * i)),
		CPUSystem: rt.Some(uint64(100_000 * i)), MemCurrent: rt.Some[uint64](32 << 20), MemPeak: rt.Some[uint64](64 << 20),
		MemLimit: rt.Some[uint64](128 << 20), Pids: rt.Some[uint64](3),
	}
	return s
}

// cmdReceiver starts a receiver and writes its address into rt.toml.
func cmdReceiver(ts *testscript.TestScript, _ bool, _ []string) {
	h, closeAll, err := testsite.Open(context.Background(), ts.MkAbs("received"), testToken, testsite.Config{RunOf: archive.Check})
	ts.Check(err)
	ts.Defer(func() { ts.Check(closeAll()) })
	server := httptest.NewServer(strict.New(h))
	ts.Defer(server.Close)
	ts.Setenv("RECEIVER", server.URL)
	ts.Check(writeConfig(ts.MkAbs("."), server.URL))
}

// cmdReceived writes the rows that the receiver has of its only run: received FILE.
func cmdReceived(ts *testscript.TestScript, _ bool, args []string) {
	var runs []struct{ ID string }
	ts.Check(json.Unmarshal(getReceived(ts, "/runs"), &runs))
	if len(runs) != 1 {
		ts.Fatalf("the receiver has %d runs", len(runs))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), getReceived(ts, "/runs/"+runs[0].ID+"/data"), 0o600))
}

func getReceived(ts *testscript.TestScript, path string) []byte {
	req, err := http.NewRequest(http.MethodGet, ts.Getenv("RECEIVER")+path, nil)
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+testToken)
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	return body
}

// cmdDamage zeroes the middle of a file.
func cmdDamage(ts *testscript.TestScript, _ bool, args []string) {
	matches, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(matches) != 1 {
		ts.Fatalf("%s: %d files", args[0], len(matches))
	}
	f, err := os.OpenFile(matches[0], os.O_RDWR, 0)
	ts.Check(err)
	st, err := f.Stat()
	ts.Check(err)
	_, err = f.WriteAt(make([]byte, st.Size()-100), 100)
	ts.Check(err)
	ts.Check(f.Close())
}

// cmdCut removes the last bytes of a file: cut FILE N.
func cmdCut(ts *testscript.TestScript, _ bool, args []string) {
	var n int
	_, err := fmt.Sscan(args[1], &n)
	ts.Check(err)
	text := ts.ReadFile(args[0])
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text[:len(text)-n]), 0o644))
}

// cmdLock holds the spool as another drain would, to the end of the script.
func cmdLock(ts *testscript.TestScript, _ bool, _ []string) {
	unlock, err := spool.LockDir(context.Background(), ts.MkAbs("spool"))
	ts.Check(err)
	ts.Defer(func() { ts.Check(unlock()) })
}

// program is the test binary under the program's name, as testscript puts it.
func program(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "rt-spool")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, path); err != nil {
		t.Fatal(err)
	}
	return path
}
