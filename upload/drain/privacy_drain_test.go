package drain

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
	"github.com/resource-tracker/rt/upload"
)

// witness is a receiver and an object store that keep all that they are sent, as text.
type witness struct {
	*httptest.Server
	mu    sync.Mutex
	takes bool // complete records
	runs  int
	sent  []string
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{}
	w.Server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.Close)
	return w
}

func (w *witness) serve(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if gz, gzErr := gzip.NewReader(bytes.NewReader(body)); gzErr == nil {
		body, err = io.ReadAll(gz)
	}
	if err == nil && strings.HasSuffix(r.URL.Path, "/"+upload.RecordName) {
		body, err = recordText(body)
	}
	if err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	w.sent = append(w.sent, fmt.Sprintf("%s %s\n%v\n%s", r.Method, r.URL, r.Header, body))
	if r.URL.Path == "/runs" {
		w.runs++
		out.WriteHeader(http.StatusCreated)
		extensions := ""
		if w.takes {
			extensions = `"extensions":{"rt.record":1},`
		}
		fmt.Fprintf(out, `{"run_id":"r%d",%s"upload_uri_prefix":"s3://b/p","upload_credentials":{"access_key":"a","secret_key":"s","session_token":"t","expiration":%q}}`,
			w.runs, extensions, time.Now().Add(time.Hour).Format(time.RFC3339))
		return
	}
	fmt.Fprint(out, "{}")
}

// privateRun puts a run into the spool whose every text has the names of fullRun. The run is
// tracked until end is called.
func privateRun(t *testing.T, dir string, job uint64, start time.Time) (path string, end func()) {
	t.Helper()
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "lab", JobID: rt.Some(job), Node: "n1", BootID: "another", Start: start},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "alice", UID: rt.Some[uint64](47114711), GID: rt.Some[uint64](47124712), Group: "physicists", Account: "physics", WorkDir: "/home/alice/secret", Comment: "deep_fold of alice"},
		Command:    []string{"/home/alice/secret/run.sh"}, CgroupPath: "/slurm/uid_47114711/job_1",
		Ending: rt.Ending{State: rt.StateRunning},
	}
	slurm.Describe(&run)
	slurm.SetJobName(&run, "deep_fold", true)
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(from, to int64) {
		for i := from; i < to; i++ {
			s := rt.Snapshot{Boot: i * 1e9, Wall: start.Add(time.Duration(i) * time.Second).UnixNano()}
			if err := w.Put(&s); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	put(1, 4)
	w.Event(rt.Event{Kind: "tracker", Name: "import", Status: "ok", Detail: "from /home/alice/secret/x"})
	return w.Path(), func() {
		put(4, 6)
		run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "epilog", Time: start.Add(5 * time.Second)})
		if err := w.End(run); err != nil {
			t.Fatal(err)
		}
	}
}

// What does not leave is in no request of a drain, live or at the end, after sacct has added its data
// to the run. The spool keeps the names.
func TestDrainKeepsNamesPrivate(t *testing.T) {
	for _, dialect := range []string{upload.DialectSpec, upload.DialectLive} {
		for _, how := range []Disclosure{Plain, Pseudonym, None} {
			t.Run(dialect+" "+string(how), func(t *testing.T) {
				w := newWitness(t)
				start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
				d := accounted(t, fmt.Sprintf(`echo 'JobIDRaw|User|Account|State|Start|End|JobName|WorkDir'; echo '1|alice|physics|TIMEOUT|%[1]s|%[1]s|deep_fold|/home/alice/secret'`, "2026-11-20T10:00:00"))
				d.unlock = func() error { return nil } // of accounted
				d.Privacy, d.Retain = *privacy(how), time.Hour
				live, end := privateRun(t, d.Dir, 2, start)
				defer end()
				ended, endNow := privateRun(t, d.Dir, 1, start)
				endNow()
				client, store, err := (Receiver{Endpoint: w.URL, Token: "token", Dialect: dialect, S3Endpoint: w.URL}).Connect()
				if err != nil {
					t.Fatal(err)
				}
				done, err := d.Directory.Drain(t.Context(), client, store, upload.DrainOptions{Live: true})
				if err != nil || done.Delivered != 1 || done.LiveSent != 1 || len(done.Problems) > 0 {
					t.Fatalf("%+v, %v", done, err)
				}
				all := strings.Join(w.sent, "\n")
				for _, secret := range []string{"alice", "deep_fold", "secret/", "physicists", "47114711", "47124712"} {
					if how != Plain && strings.Contains(all, secret) {
						t.Errorf("%q was sent:\n%s", secret, all)
					}
				}
				if how == Plain && !strings.Contains(all, `"slurm_user":"alice"`) {
					t.Errorf("the user was not sent:\n%s", all)
				}
				if !strings.Contains(all, `"external_run_id":"lab:1@n1#0"`) || !strings.Contains(all, `name":"n1"`) {
					t.Errorf("the ids were not sent:\n%s", all)
				}
				if n := strings.Count(all, "user-nfth4dprkoqpfnnv"); (n > 0) != (how == Pseudonym) {
					t.Errorf("the pseudonym was sent %d times:\n%s", n, all)
				}
				for _, path := range []string{live, ended} {
					run := runAt(t, path)
					isWhole := run.User == "alice" && run.WorkDir == "/home/alice/secret" && run.Meta.JobName == "deep_fold" && run.UID == rt.Some[uint64](47114711) && len(run.Command) == 1
					if !isWhole {
						t.Errorf("the spool has %+v", run)
					}
				}
			})
		}
	}
}

// A preview is what the drain then sends.
func TestPreview(t *testing.T) {
	w := newWitness(t)
	d := accounted(t, "exit 1")
	d.unlock = func() error { return nil }
	d.Accounting, d.Privacy = Accounting{}, *privacy(Pseudonym)
	path, end := privateRun(t, d.Dir, 1, time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	end()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := spool.List(d.Dir)
	if err != nil || len(entries) != 1 {
		t.Fatal(entries, err)
	}
	for _, dialect := range []string{"auto", "", upload.DialectSpec} {
		p := d.Preview(&entries[0], dialect)
		if p == nil || p.Error != "" || p.Run.User != "user-nfth4dprkoqpfnnv" {
			t.Fatalf("%+v", p)
		}
	}
	text, err := json.Marshal(d.Preview(&entries[0], "auto").Registration)
	if err != nil {
		t.Fatal(err)
	}
	preview := strings.TrimSpace(string(text))
	after, err := os.ReadFile(path)
	left, globErr := filepath.Glob(filepath.Join(d.Dir, "*"))
	if err != nil || globErr != nil || !bytes.Equal(before, after) || len(left) != 1 {
		t.Errorf("a preview changes the spool: %v, %v, %v", left, err, globErr)
	}
	client, store, err := (Receiver{Endpoint: w.URL, Token: "token", S3Endpoint: w.URL}).Connect()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Directory.Drain(t.Context(), client, store, upload.DrainOptions{}); err != nil {
		t.Fatal(err)
	}
	isSame := func(request string) bool { return strings.HasSuffix(strings.TrimSpace(request), preview) }
	if !slices.ContainsFunc(w.sent, isSame) {
		t.Errorf("the preview is %s, and these were sent:\n%s", preview, strings.Join(w.sent, "\n"))
	}
	if p := d.Preview(&spool.Entry{Path: filepath.Join(d.Dir, "none.db")}, ""); p == nil || p.Error == "" || p.Run != nil {
		t.Errorf("%+v", p)
	}
	if p := d.Preview(&spool.Entry{Err: os.ErrNotExist}, ""); p != nil {
		t.Errorf("%+v", p)
	}
}

// namedRun puts an ended run into the spool. The run and all its readings have names.
func namedRun(t *testing.T, dir string) (path string) {
	t.Helper()
	run, list := runtest.Job()
	run.User, run.UID, run.WorkDir, run.Meta.JobName = "alice", rt.Some[uint64](47114711), "/home/alice/secret", "deep_fold"
	run.Command, run.CgroupPath = []string{"/home/alice/secret/run.sh", "classified"}, "/slurm/uid_47114711/job_1"
	slurm.Update(&run, func(run *rt.Run) { run.Group, run.Comment = "physicists", "classified work" })
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		s := &list[i]
		for n, comm := range []string{"deep_fold", "alice-helper", "classified"} {
			s.Procs = append(s.Procs, rt.ProcessReading{PID: uint64(9000 + n), Start: 1, Comm: comm, UserTicks: rt.Some[uint64](uint64(i))})
		}
		for n, who := range []string{"alice", "robert"} {
			s.Mounts = append(s.Mounts, rt.MountReading{Disk: fmt.Sprint("sdx", n), MountPoint: "/home/" + who, FSType: "ext4", Total: 1 << 30})
			s.RemoteFS = append(s.RemoteFS, rt.RemoteFSReading{Kind: "nfs", Source: "nfs1:/export/home/" + who, MountPoint: "/nfs/" + who, ReadBytes: rt.Some(uint64(1000*i*n + i))})
		}
		if err := w.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	w.Event(rt.Event{Kind: "spool", Name: "/home/alice/spool/x.db", Status: "failed", Detail: "open /home/alice/secret/x as alice, /slurm/uid_47114711/job_1"})
	if err := w.Record(rt.ForeignReport{Source: "other", Time: run.Start.UnixNano(), Body: []byte(`{"user":"alice","target":"/slurm/uid_47114711/job_1/deep_fold"}`)}); err != nil {
		t.Fatal(err)
	}
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	return w.Path()
}

// The complete record has no name that does not leave, in any of its tables, and the figures of the
// run. Each attempt sends the same bytes.
func TestRecordKeepsNamesPrivate(t *testing.T) {
	for _, how := range []Disclosure{Plain, Pseudonym, None} {
		c, client, putter := newRecordReceiver(t)
		dir := &Directory{Dir: t.TempDir(), Access: ownerOnly, Retain: time.Hour, Privacy: *privacy(how)}
		original := runtest.Open(t, namedRun(t, dir.Dir))
		c.lose = "finish"
		for range 2 {
			if _, err := dir.Drain(t.Context(), client, putter, upload.DrainOptions{Tries: 1}); err != nil {
				t.Log(err)
			}
		}
		records := c.objects["/b/p/r1/"+upload.RecordName]
		if len(records) != 2 || !bytes.Equal(records[0], records[1]) || len(c.finishes) != 2 {
			t.Fatalf("%s: %d records, which differ, or %d finishes", how, len(records), len(c.finishes))
		}
		file, err := archive.Read(t.TempDir(), nil, bytes.NewReader(records[0]))
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, c.finishes[1].Summary...)
		for _, secret := range []string{"alice", "robert", "deep_fold", "secret", "physicists", "classified", "uid_47114711"} {
			if bytes.Contains(content, []byte(secret)) != (how == Plain) {
				t.Errorf("%s: is %q in the record: %v", how, secret, how != Plain)
			}
		}
		copied := runtest.Open(t, file)
		if run := copied.Run(); run.UID.Valid() != (how == Plain) || run.Node != original.Run().Node || copied.Host().HostName != "n1" {
			t.Errorf("%s: %+v", how, run)
		}
		if a, b := figuresOf(t, original), figuresOf(t, copied); a != b {
			t.Errorf("%s: the figures of the record are %s, those of the spool %s", how, b, a)
		}
	}
}

// figuresOf returns the figures of a run, without its names.
func figuresOf(t *testing.T, r *spool.Reader) string {
	t.Helper()
	events, err := r.Events()
	if err != nil {
		t.Fatal(err)
	}
	s, err := report.Summarize(r.Run(), events, r.Snapshots(t.Context(), 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.Node.RemoteFS); n < 2 { // those with the same substitute would be added up
		t.Errorf("%d network file systems", n)
	}
	f := s.Figures()
	f.Run = report.RunPart{}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
