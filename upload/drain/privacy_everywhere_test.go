package drain

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
	"github.com/resource-tracker/rt/upload"
)

// recordText returns all bytes of a record: decompressed, and as a spool file.
func recordText(record []byte) ([]byte, error) {
	z, err := zstd.NewReader(bytes.NewReader(record))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rt-spool-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path, err := archive.Read(dir, nil, bytes.NewReader(record))
	if err != nil {
		return nil, err
	}
	file, err := os.ReadFile(path)
	return append(text, file...), err
}

// mark is in each name that does not leave, and in no other text. It is longer than what the bytes of a time spell
// by chance.
const mark = "qzxwv"

// markedTexts are texts with the names of a run in all forms that other programs, the kernel and Slurm give
// them.
var markedTexts = []string{
	"qzxwvuser", "QzxwvUser", "of qzxwvuser.", "qzxwvuser_2", "job_qzxwvuser", "(qzxwvuser)", "qzxwvuser@host", "/home/qzxwvuser", "/home/qzxwvuser/x", "--user=qzxwvuser", "user:qzxwvuser;",
	"qzxwvgroup", "a,qzxwvgroup,b", "/group/qzxwvgroup/x", "qzxwvjob-1.sh", "qzxwvjob-1.sh.out", "slurm-qzxwvjob-1.sh_5", "open /tmp/qzxwvjob-1.sh: no such file",
	"/scratch/qzxwvdir/run", "/scratch/qzxwvdir/run/x", "cd /scratch/qzxwvdir/run; ls", "dir=/scratch/qzxwvdir/run/", "./qzxwvprogram", "exec ./qzxwvprogram: permission denied", "qzxwvprogram", "--key=qzxwvkey",
	"/slurm/uid_47114711/job_1", "uid=47114711", "gid 47124712", "user-47114711.slice", "/run/user/47114711/x", "user@47114711.service", "user-48114811.slice",
	"qzxwv comment",
}

// markedRun makes a run whose every text has names. If onlyTags is set, only the tags have names,
// as for a run that sacct does not know.
func markedRun(onlyTags bool, start time.Time) rt.Run {
	run := rt.Run{
		Identity: rt.Identity{Cluster: "lab", JobID: rt.Some[uint64](1), Step: "0", Node: "n1", BootID: "another", Start: start},
		Allocation: rt.Allocation{
			Scheduler: "slurm", User: "qzxwvuser@example.org", UID: rt.Some[uint64](47114711), GID: rt.Some[uint64](47124712), Group: "qzxwvgroup",
			Account: "qzxwvuser", Partition: "main", QOS: "QZXWVUSER", Reservation: "qzxwvuser_7", WorkDir: "/scratch/qzxwvdir/run",
			Comment: "qzxwv comment", Constraints: "qzxwvjob-1.sh", Licenses: "/scratch/qzxwvdir/run",
		},
		Ending: rt.Ending{State: rt.StateRunning},
	}
	slurm.Describe(&run)
	slurm.SetJobName(&run, "qzxwvjob-1.sh", true)
	if onlyTags {
		run.User, run.UID, run.GID, run.WorkDir, run.Comment, run.Meta.JobName = "", rt.None[uint64](), rt.None[uint64](), "", "", ""
	}
	run.Command = []string{"./qzxwvprogram", "--key=qzxwvkey", "qzxwvuser"}
	run.CgroupPath = "/sys/fs/cgroup/slurm/uid_47114711/job_1"
	m := &run.Meta
	for i, text := range []*string{&m.ProjectName, &m.StageName, &m.TaskName, &m.Env, &m.Language, &m.Executor, &m.ContainerImage} {
		*text = markedTexts[i]
	}
	for i, text := range markedTexts {
		m.Tags[fmt.Sprint("tag", i)] = text
		m.Tags[text] = "x"
	}
	return run
}

// markedSpool puts a run into a spool. All tables of the run have names.
func markedSpool(t *testing.T, dir string, onlyTags bool) {
	t.Helper()
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	run := markedRun(onlyTags, start)
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(4) {
		s := rt.Snapshot{Boot: (i + 1) * 1e9, Wall: start.Add(time.Duration(i) * time.Second).UnixNano()}
		for n, text := range markedTexts {
			s.Procs = append(s.Procs, rt.ProcessReading{PID: uint64(9000 + n), Start: 1, Comm: text[:min(len(text), 15)]})
			s.Mounts = append(s.Mounts, rt.MountReading{Disk: fmt.Sprint("sd", n), MountPoint: "/" + strings.TrimPrefix(text, "/"), FSType: "ext4"})
			s.RemoteFS = append(s.RemoteFS, rt.RemoteFSReading{Kind: "nfs", Source: text + ":/a/b", MountPoint: text}, rt.RemoteFSReading{Kind: "nfs", Source: text, MountPoint: "/x"})
		}
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range markedTexts {
		for _, kind := range []string{"sensor", "spool", "tracker", "job", "drain", "gap", "of another version"} {
			w.Event(rt.Event{Kind: kind, Name: fmt.Sprint("x", i), Status: "failed", Detail: text})
			w.Event(rt.Event{Kind: kind, Name: fmt.Sprint("/", i, "/", text), Status: "failed"})
		}
		w.Event(rt.Event{Kind: text, Name: text, Status: text, Detail: text})
		for _, body := range []string{`{"target":%q}`, `{"usage":{"/x/%s":1}}`, `{"a":[{"b":[1,%q]}]}`, `%q`, `%s`, `{%s`} {
			for _, source := range []string{"powerapi", "gempba", "of " + text} {
				if err := w.Record(rt.ForeignReport{Source: source, Time: start.UnixNano(), Body: fmt.Appendf(nil, body, text)}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	w.Event(rt.Event{Kind: "job", Name: "sacct", Status: "ok", Detail: "state=CANCELLED cancelled_by_uid=48114811"})
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](15), Outcome: rt.OutcomeCancelled, Source: "sacct", Time: start.Add(5 * time.Second)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
}

// Names are in all places of a spool file that can have some. No byte of a request has one of them: not the
// registration, the rows, the finish with its figures, or the complete record.
func TestNoNameLeaves(t *testing.T) {
	for _, dialect := range []string{upload.DialectSpec, upload.DialectLive} {
		for _, how := range []Disclosure{Plain, Pseudonym, None} {
			for _, onlyTags := range []bool{false, true} {
				w := newWitness(t)
				w.takes = true
				dir := filepath.Join(t.TempDir(), "spool")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				d := &Directory{Dir: dir, Access: ownerOnly, Retain: time.Hour, Privacy: *privacy(how)}
				markedSpool(t, d.Dir, onlyTags)
				client, store, err := (Receiver{Endpoint: w.URL, Token: "token", Dialect: dialect, S3Endpoint: w.URL}).Connect()
				if err != nil {
					t.Fatal(err)
				}
				done, err := d.Drain(t.Context(), client, store, upload.DrainOptions{})
				if err != nil || done.Delivered != 1 || len(done.Problems) > 0 {
					t.Fatalf("%+v, %v", done, err)
				}
				checkMarks(t, w.sent, dialect, how)
			}
		}
	}
}

// checkMarks checks that the requests have marks only if names leave.
func checkMarks(t *testing.T, requests []string, dialect string, how Disclosure) {
	t.Helper()
	records := 0
	for _, text := range requests {
		line, _, _ := strings.Cut(text, "\n")
		isRecord := strings.HasSuffix(line, "/"+upload.RecordName)
		if isRecord {
			records++
		}
		text = strings.ToLower(text)
		for _, secret := range []string{mark, "47114711", "47124712", "48114811"} {
			at := strings.Index(text, secret)
			switch {
			case how != Plain && at >= 0:
				t.Errorf("%s: %s has %q", how, line, text[max(0, at-60):min(len(text), at+60)])
			case how == Plain && at < 0 && isRecord:
				t.Errorf("%s: %s does not have %s", how, line, secret)
			}
		}
	}
	if isSpec := dialect == upload.DialectSpec; (records == 1) != isSpec {
		t.Errorf("%s: %d records in %d requests", dialect, records, len(requests))
	}
}
