package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt/e2e/await"
	"github.com/resource-tracker/rt/e2e/samples"
	"github.com/resource-tracker/rt/e2e/testsite"
	"github.com/resource-tracker/rt/spool"
)

// T-STR-01: without SENTINEL_API_TOKEN no connection is made; an empty one is none.
func TestT_STR_01(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	for _, token := range []string{"", "SENTINEL_API_TOKEN=", "SENTINEL_API_TOKEN= "} {
		cmd := s.streaming("sh", "-c", "exit 4")
		cmd.Env = slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "SENTINEL_API_TOKEN=") })
		if token != "" {
			cmd.Env = append(cmd.Env, token)
		}
		o := s.run(cmd)
		if o.status != 4 || o.stderr != "" || strings.Count(o.stdout, "\n") < 1 || len(o.kept) != 0 {
			t.Errorf("with %q: %+v", token, o)
		}
	}
	if s.opened != 0 {
		t.Errorf("%d connections were made", s.opened)
	}
}

func unzip(t *testing.T, packed []byte) []byte {
	t.Helper()
	gz, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(gz)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// rows checks a CSV and returns how many rows it has.
func rows(t *testing.T, csv []byte) (n int) {
	t.Helper()
	_, all, err := samples.ReadCSV(bytes.NewReader(csv))
	if err != nil {
		t.Fatalf("%v in %s", err, csv)
	}
	for row, err := range all {
		if err != nil || row.Timestamp < 1 || !row.Scalars.MemFree.Valid() {
			t.Fatalf("row %d: %+v, %v", n+1, row, err)
		}
		n++
	}
	return n
}

// T-STR-02: an upload has Content-Encoding gzip and a body that is CSV.
func TestT_STR_02(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming()
	out := s.start(cmd)
	s.awaitUpload() // a run that ends before is sent with its finish
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	o := s.end(cmd, out)
	if o.status != 0 || o.stderr != "" || len(o.kept) != 0 {
		t.Fatalf("%+v", o)
	}
	sum, bodies := 0, map[string][]byte{}
	for _, put := range s.requests("PUT", ".csv.gz") {
		if put.header.Get("Content-Encoding") != "gzip" || put.header.Get("Content-Length") == "0" {
			t.Errorf("%s: %v", put.path, put.header)
		}
		if before, isRepeated := bodies[put.path]; !isRepeated {
			sum += rows(t, unzip(t, put.body))
		} else if !bytes.Equal(before, put.body) { // on a busy machine an upload is repeated
			t.Errorf("%s is repeated with other bytes", put.path)
		}
		bodies[put.path] = put.body
	}
	if want := strings.Count(o.stdout, "\n"); sum != want || sum == 0 {
		t.Errorf("%d rows in %d uploads, %d samples", sum, len(s.requests("PUT", ".csv.gz")), want)
	}
}

// finishOf is the body of the only finish.
func (s *station) finishOf() (f struct {
	RunID      *string  `json:"run_id"`
	ExitCode   *int     `json:"exit_code"`
	RunStatus  string   `json:"run_status"`
	DataSource string   `json:"data_source"`
	DataURIs   []string `json:"data_uris"`
	DataCSV    string   `json:"data_csv"`
}) {
	s.t.Helper()
	all := s.requests("POST", "/finish")
	if len(all) != 1 {
		s.t.Fatalf("%d finishes", len(all))
	}
	if err := json.Unmarshal(all[0].body, &f); err != nil {
		s.t.Fatal(err)
	}
	return f
}

// awaitUpload waits until an object has come.
func (s *station) awaitUpload() {
	s.t.Helper()
	s.await(1, "PUT", "")
}

// T-EOR-01: after SIGTERM it sends the rest and exits with 0.
func TestT_EOR_01(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming()
	out := s.start(cmd)
	s.awaitUpload()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	o := s.end(cmd, out)
	f := s.finishOf()
	ended, _ := s.ended()
	if o.status != 0 || o.stderr != "" || len(o.kept) != 0 || f.RunStatus != "finished" || f.ExitCode != nil {
		t.Errorf("%+v, %+v", o, f)
	}
	if want := strings.Count(o.stdout, "\n"); len(ended) != 1 || ended[0].Rows != want {
		t.Errorf("%d samples, received %+v", want, ended)
	}
}

// T-EOR-02: the finish names the run as the answer to the registration did, in the path and in the
// body. It also says how the command ended.
func TestT_EOR_02(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		script, status string
		code           *int
		exit           int
	}{{"exit 0", "finished", new(0), 0}, {"exit 3", "failed", new(3), 3}, {"kill -9 $$", "failed", nil, 137}, {"kill $$", "finished", nil, 143}} {
		s := newStation(t, testsite.Config{})
		cmd := s.streaming("--job-name", "md", "sh", "-c", tc.script)
		out := s.start(cmd)
		t.Run(tc.script, func(t *testing.T) {
			s.report(t)
			o := s.end(cmd, out)
			registrations := s.requests("POST", "/runs")
			if o.status != tc.exit || len(registrations) != 1 {
				t.Fatalf("%+v, %d registrations", o, len(registrations))
			}
			var answer struct {
				RunID string `json:"run_id"`
			}
			if err := json.Unmarshal(registrations[0].answer, &answer); err != nil || answer.RunID == "" {
				t.Fatalf("%s, %v", registrations[0].answer, err)
			}
			f := s.finishOf()
			if f.RunID == nil || *f.RunID != answer.RunID || s.requests("POST", "/finish")[0].path != "/runs/"+answer.RunID+"/finish" {
				t.Errorf("run %s is finished as %v", answer.RunID, f.RunID)
			}
			if f.RunStatus != tc.status || (f.ExitCode == nil) != (tc.code == nil) || f.ExitCode != nil && *f.ExitCode != *tc.code {
				t.Errorf("status %q, exit code %v", f.RunStatus, f.ExitCode)
			}
		})
	}
}

// T-EOR-03: without uploads the rows are in the finish.
func TestT_EOR_03(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("true")
	cmd.Env = append(cmd.Env, "TRACKER_UPLOAD_INTERVAL=60")
	o := s.run(cmd)
	f := s.finishOf()
	packed, err := base64.StdEncoding.DecodeString(f.DataCSV)
	if err != nil || f.DataSource != "inline" || len(f.DataURIs) != 0 || len(s.uploads()) != 0 {
		t.Fatalf("%v, %+v", err, f)
	}
	if n, want := rows(t, unzip(t, packed)), strings.Count(o.stdout, "\n"); n != want || n < 1 {
		t.Errorf("%d rows, %d samples", n, want)
	}
}

// T-EOR-04: with an upload the finish names all objects.
func TestT_EOR_04(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("-q", "cat")
	endCommand := commandInput(t, cmd)
	out := s.start(cmd)
	s.awaitUpload()
	endCommand()
	s.end(cmd, out)
	f := s.finishOf()
	var uris []string
	for _, put := range s.uploads() {
		uris = append(uris, "s3:/"+put.path)
	}
	uris = slices.Compact(uris) // an upload is repeated when its answer is late
	if f.DataSource != "s3" || f.DataCSV != "" || len(uris) == 0 || !slices.Equal(f.DataURIs, uris) {
		t.Errorf("%+v after uploads of %q", f, uris)
	}
	if len(s.requests("PUT", "/run.rtrec")) == 0 {
		t.Error("no complete record was sent")
	}
}

// The command gets our environment, and invalid settings of streaming are reported.
func TestStreamingSettings(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	if o := s.run(s.streaming("-q", "sh", "-c", "echo $SENTINEL_API_URL ${#SENTINEL_API_TOKEN}")); o.stdout != s.url+" "+strconv.Itoa(len(testToken))+"\n" {
		t.Errorf("the command's environment: %+v", o)
	}
	for value, status := range map[string]int{"0": 2, "-1": 2, "1s": 2, "99999999999": 2, "": 0, "7": 0} {
		cmd := s.streaming("-q", "true")
		cmd.Env = append(cmd.Env, "TRACKER_UPLOAD_INTERVAL="+value)
		if o := s.run(cmd); o.status != status || (status != 0) != strings.Contains(o.stderr, "TRACKER_UPLOAD_INTERVAL") {
			t.Errorf("%q: %+v", value, o)
		}
	}
	cmd := s.streaming("-q", "true")
	cmd.Env = append(cmd.Env, "AWS_ENDPOINT_URL_S3=http://store.invalid:9000")
	if o := s.run(cmd); o.status != 0 || !strings.Contains(o.stderr, "warning: uploads cross the network to store.invalid:9000 in clear text") {
		t.Errorf("a store without encryption: %+v", o)
	}
	cmd = s.streaming("-q", "sh", "-c", "exit 5")
	cmd.Env = append(cmd.Env, "SENTINEL_API_URL=ftp://x")
	if o := s.run(cmd); o.status != 5 || !strings.Contains(o.stderr, "warning: nothing is sent: the Sentinel endpoint") || len(o.kept) != 0 {
		t.Errorf("%+v", o)
	}
}

// With --spool the run is kept there, as delivered.
func TestStreamingKeepsTheUsersSpool(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	cmd := s.streaming("--spool", "runs", "true")
	o := s.run(cmd)
	entries, err := spool.List(filepath.Join(cmd.Dir, "runs"))
	if err != nil || len(entries) != 1 || entries[0].Live || entries[0].DeliveredAt.IsZero() || o.stderr != "" || len(o.kept) != 0 {
		t.Errorf("%+v, %v, %+v", entries, err, o)
	}
}

// Killed at any moment, what was committed is delivered by rt-spool.
func TestKilledWhileStreaming(t *testing.T) {
	if testing.Short() {
		t.Skip("in make check: kills at random; TestTrackerIsKilledBeforeItsSender has one")
	}
	t.Parallel()
	running := map[string]func(t *testing.T){}
	for i := range 6 {
		s := newStation(t, testsite.Config{})
		cmd := s.streaming("-q")
		out := s.start(cmd)
		after := 200*time.Millisecond + rand.N(time.Second)*time.Duration(6-i)/2
		killed := make(chan error, 1)
		time.AfterFunc(after, func() { killed <- cmd.Process.Kill() })
		running[strconv.Itoa(i)] = func(t *testing.T) {
			s.report(t)
			if err := <-killed; err != nil {
				t.Fatal(err)
			}
			o := s.end(cmd, out)
			var entries []spool.Entry
			if len(o.kept) == 1 {
				awaitDead(t, o.kept[0])
				var err error
				if entries, err = spool.List(o.kept[0]); err != nil {
					t.Fatal(err)
				}
			}
			if asked := len(s.requests("POST", "")); len(entries) == 0 && asked == 0 {
				return // it had not begun
			}
			if len(entries) != 1 || entries[0].Err != nil {
				t.Fatalf("after %s: %+v, %+v", after, entries, o)
			}
			if i == 0 {
				next := command(t, "-q", "sleep", "0.3")
				next.Env = append(slices.Clone(cmd.Env), "SENTINEL_API_URL=http://127.0.0.1:1", "TRACKER_UPLOAD_INTERVAL=60")
				if n := s.run(next); !strings.Contains(n.stderr, "an earlier run was not delivered; this sends it: SENTINEL_API_URL=http://127.0.0.1:1 rt-spool --spool "+o.kept[0]+" drain\n") {
					t.Errorf("the next one says %q", n.stderr)
				}
			}
			drain := exec.Command(rtSpool(t), "--spool", o.kept[0], "drain")
			drain.Env, drain.Dir = cmd.Env, cmd.Dir
			if d := s.run(drain); d.status != 0 {
				t.Fatalf("after %s: %+v", after, d)
			}
			ended, all := s.ended()
			if len(ended) != 1 || ended[0].Rows != max(0, int(entries[0].Snapshots-1)) || all > 2 {
				t.Errorf("after %s: %d snapshots, received %+v of %d", after, entries[0].Snapshots, ended, all)
			}
		}
	}
	for name, check := range running {
		t.Run(name, check)
	}
}

// T-CLD-01: without a metadata service the program starts as usual and registers without a
// cloud_* field. The firmware names a vendor, but this machine is not in that vendor's network.
func TestT_CLD_01(t *testing.T) {
	t.Parallel()
	s := newStation(t, testsite.Config{})
	sys := t.TempDir()
	dmi := filepath.Join(sys, "class/dmi/id")
	if err := os.MkdirAll(dmi, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dmi, "sys_vendor"), []byte("Alibaba Cloud\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := s.streaming("--path.sysfs", sys, "-o", "samples")
	for i, v := range cmd.Env {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "TRACKER_CLOUD_") {
			cmd.Env[i] = name + "=1" // not suppressed
		}
	}
	out := s.start(cmd)
	await.Change(t, cmd.Dir, "a sample", func() bool { return hasLines(filepath.Join(cmd.Dir, "samples"), 1) })
	s.awaitUpload()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if o := s.end(cmd, out); o.status != 0 || o.stderr != "" {
		t.Errorf("%+v", o)
	}
	registrations := s.requests("POST", "/runs")
	if len(registrations) != 1 {
		t.Fatalf("%d registrations", len(registrations))
	}
	var body map[string]any
	if err := json.Unmarshal(registrations[0].body, &body); err != nil || body["host_vcpus"] == nil {
		t.Fatalf("%v: %s", err, registrations[0].body)
	}
	for name := range body {
		if strings.HasPrefix(name, "cloud_") {
			t.Errorf("%s is %v", name, body[name])
		}
	}
}
