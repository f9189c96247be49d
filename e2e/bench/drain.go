package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// drain measures rt-spool drain of one long run, from its file to a receiver of samples, by the CPU time that it takes.
// The fastest of some drains counts: other programs on the machine make the caches cold.
func drain(bin, dir string) ([]figure, error) {
	const (
		snapshots = 100_000
		drains    = 5
	)
	made := filepath.Join(dir, "long")
	if err := longRun(made, snapshots); err != nil {
		return nil, err
	}
	var least time.Duration
	for i := range drains {
		spoolDir := filepath.Join(dir, fmt.Sprintf("drained-%d", i))
		if err := os.CopyFS(spoolDir, os.DirFS(made)); err != nil {
			return nil, err
		}
		cpu, err := drainOnce(bin, spoolDir, snapshots)
		if err != nil {
			return nil, err
		}
		if least == 0 || cpu < least {
			least = cpu
		}
	}
	return []figure{{
		what: "rt-spool drain, snapshots per second and core", value: snapshots / least.Seconds(), unit: "/s", limit: 200_000, atLeast: true,
		from: fmt.Sprintf("%d in %.2f s of CPU time, the fastest of %d", snapshots, least.Seconds(), drains),
	}}, nil
}

// longRun spools a run of n snapshots of a job on a busy node.
func longRun(dir string, n int64) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	start := time.Now().Add(-time.Duration(n) * time.Second)
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](1), Node: "n1", Start: start}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{CommitRows: 200})
	if err != nil {
		return err
	}
	for i := range n {
		v := uint64(i)
		s := rt.Snapshot{Seq: i + 1, Wall: start.UnixNano() + i*1e9, Boot: 1e12 + i*1e9, Reason: rt.ReasonTick}
		s.Job = rt.JobReading{
			Phase: rt.JobPresent, CPUUsage: rt.Some(v*987_003 + v%977), CPUUser: rt.Some(v*900_137 + v%977), CPUSystem: rt.Some(v * 86_866),
			MemCurrent: rt.Some(1<<30 + v*v%9973*4096), MemPeak: rt.Some[uint64](2 << 30), Pids: rt.Some(3 + v%5),
			IOReadBytes: rt.Some(v * 40960), IOWriteBytes: rt.Some(v * 8192),
		}
		s.Node.NetRxBytes, s.Node.NetTxBytes = rt.Some(v*37_001+v%997), rt.Some(v*15_001)
		s.Node.Processes, s.Node.MemFree = rt.Some(300+v%7), rt.Some(8<<30+v%991*4096)
		if err := w.Put(&s); err != nil {
			return err
		}
	}
	run.Apply(rt.Exit{Outcome: rt.OutcomeFinished, Time: time.Now()})
	return w.End(run)
}

// drainOnce drains a spool, and returns the CPU time that it took.
func drainOnce(bin, spoolDir string, snapshots int64) (time.Duration, error) {
	conf := spoolDir + ".toml"
	if err := os.WriteFile(conf, fmt.Appendf(nil, "[spool]\ndir = %q\n[drain]\nsacct = \"off\"\n", spoolDir), 0o600); err != nil {
		return 0, err
	}
	receiver := httptest.NewServer(http.HandlerFunc(receive))
	defer receiver.Close()
	cmd := exec.Command(filepath.Join(bin, "rt-spool"), "--config", conf, "drain", "--json")
	cmd.Env = append(os.Environ(), "SENTINEL_API_URL="+receiver.URL, "SENTINEL_API_TOKEN=a-token", "AWS_ENDPOINT_URL_S3="+receiver.URL)
	cmd.Stderr = os.Stderr
	said, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("drain: %w\n%s", err, said)
	}
	var sum struct{ Rows int64 }
	err = json.Unmarshal(said, &sum)
	if err != nil || sum.Rows != snapshots-1 {
		return 0, fmt.Errorf("drain: %d rows of %d, %w", sum.Rows, snapshots-1, err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// receive answers as a receiver without extensions does, and as its store.
func receive(w http.ResponseWriter, r *http.Request) {
	_, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.Method == http.MethodPut {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"run_id": "1", "upload_uri_prefix": "s3://bench/1",
		"upload_credentials": {"access_key": "a", "secret_key": "b", "session_token": "c", "expiration": %q}}`,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
}
