package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/e2e/runtest"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// recordOf returns the run of a user, its registration and its complete record.
func recordOf(t *testing.T, user string, lines ...rt.ForeignReport) (run rt.Run, registration, record []byte) {
	t.Helper()
	run, list := runtest.Job()
	run.User, run.Group, run.UID, run.WorkDir = user, user+"-group", rt.Some[uint64](47114711), "/home/"+user+"/secret"
	run.Command = []string{"/home/" + user + "/secret/run.sh"}
	slurm.Describe(&run)
	slurm.SetJobName(&run, "deep_fold", true)
	w, err := spool.Create(t.TempDir(), run, rt.Host{HostName: "n1"}, spool.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i].Procs = []rt.ProcessReading{{PID: 9, Start: 1, Comm: user + "-x"}}
		if err := w.Put(&list[i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range lines {
		if err := w.Record(line); err != nil {
			t.Fatal(err)
		}
	}
	w.Event(rt.Event{Kind: "tracker", Name: "import", Status: "ok", Detail: "from /home/" + user + "/secret/x"})
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "epilog", Time: run.Start.Add(time.Hour)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	r, err := spool.Open(w.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b bytes.Buffer
	if err := archive.Write(t.Context(), &b, r, nil); err != nil {
		t.Fatal(err)
	}
	run = r.Run()
	registration, err = json.Marshal(sentinel.Registration(upload.DialectSpec, run, r.Host()))
	if err != nil {
		t.Fatal(err)
	}
	return run, registration, b.Bytes()
}

// putRun stores a finished run with its record.
func putRun(t *testing.T, st *sitestores.Stores, id, user string, lines ...rt.ForeignReport) {
	t.Helper()
	run, registration, record := recordOf(t, user, lines...)
	if err := st.Registry.Runs.Create(t.Context(), site.StoredRun{ID: id, Owner: "o", Created: time.Now(), Metadata: registration}); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(record)
	o := site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(len(record)), SHA256: hex.EncodeToString(sum[:]), Created: time.Now()}
	if _, err := st.Registry.Runs.PutObject(t.Context(), o, record, &run); err != nil {
		t.Fatal(err)
	}
	summary, err := json.Marshal(map[string]any{"run": map[string]any{"user": user, "meta": map[string]string{"job_name": "deep_fold"}}})
	if err != nil {
		t.Fatal(err)
	}
	f := site.Finish{RunStatus: "finished", DataSource: "s3", RecordSum: o.SHA256, Summary: summary}
	if _, err := st.Registry.Runs.Finish(t.Context(), id, f, nil, nil); err != nil {
		t.Fatal(err)
	}
}

// text is everything in the files of a site, records decompressed.
func textOf(t *testing.T, dir string, st *sitestores.Stores, ids ...string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		all.Write(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, id := range ids {
		body, err := st.Registry.Objects.Body(t.Context(), id, site.RecordName)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := z.DecodeAll(body, nil)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(plain)
	}
	return all.String()
}

const (
	runOfAlice = "20261101t120000-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	runOfBob   = "20261101t120000-bbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// newSite returns a site with a run of alice and one of bob, and a configuration with a key.
func newSite(t *testing.T) (dir, conf string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "site")
	conf = filepath.Join(filepath.Dir(dir), "rt.toml")
	key := filepath.Join(filepath.Dir(dir), "key")
	for path, text := range map[string]string{key: "0123456789abcdef0123456789abcdef", conf: "[privacy]\nkey_file = \"" + key + "\"\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	st, err := sitestores.Open(t.Context(), config.Serve{Dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	started(t, st)
	putRun(t, st, runOfAlice, "alice")
	putRun(t, st, runOfBob, "bob")
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, conf
}

// forget leaves no name of the user, and a site without damage. The table audit says who did what.
func TestForget(t *testing.T) {
	for _, how := range []string{"delete", "pseudonym"} {
		t.Run(how, func(t *testing.T) {
			t.Setenv("SUDO_USER", "root-of-site")
			dir, conf := newSite(t)
			args := []string{"--config", conf, "forget", "--user", "alice"}
			left := []string{runOfBob}
			if how == "pseudonym" {
				args, left = append(args, "--pseudonym"), append(left, runOfAlice)
			}
			if status, out, messages := rtSite(t, dir, append(args, "--dry-run")...); status != 0 || !strings.HasPrefix(out, "dry run: ") || !strings.Contains(out, " alice: 1 runs with 1 objects, ") {
				t.Errorf("%d %q %q", status, out, messages)
			}
			if status, out, messages := rtSite(t, dir, args...); status != 0 || !strings.Contains(out, " alice: 1 runs with 1 objects, ") || messages != "" {
				t.Errorf("%d %q %q", status, out, messages)
			}
			if status, out, messages := rtSite(t, dir, "verify"); status != 0 {
				t.Errorf("%d %q %q", status, out, messages)
			}
			st, err := sitestores.Open(t.Context(), config.Serve{Dir: dir}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			}()
			text := textOf(t, dir, st, left...)
			for _, secret := range []string{"/home/alice", "alice-group", "alice-x", `"alice"`} {
				if strings.Contains(text, secret) {
					t.Errorf("%q is stored", secret)
				}
			}
			if !strings.Contains(text, "/home/bob/secret") {
				t.Error("the names of others have gone")
			}
			names := regexp.MustCompile(`user-[a-z2-7]{16}`).FindAllString(text, -1)
			slices.Sort(names)
			n := len(names)
			if (n > 3) != (how == "pseudonym") || len(slices.Compact(names)) > 1 {
				t.Errorf("the pseudonyms are %q", names)
			}
			lines, err := st.Registry.Settings.Audits(t.Context())
			audit := strings.Join(lines, "\n")
			if err != nil || len(lines) != 2 || strings.Count(audit, " root-of-site as ") != 2 || !strings.HasSuffix(audit, " alice: 1 runs, 1 objects") {
				t.Errorf("%q %v", lines, err)
			}
		})
	}
}

// What is missing on the command line, or in the configuration, is reported, and nothing changes.
func TestForgetRefuses(t *testing.T) {
	dir, conf := newSite(t)
	if status, _, messages := rtSite(t, dir, "forget"); status != 2 || !strings.Contains(messages, "forget needs --user NAME") {
		t.Errorf("%d %q", status, messages)
	}
	if status, _, messages := rtSite(t, dir, "forget", "--user", "alice", "--pseudonym"); status != 78 || !strings.Contains(messages, "privacy.key_file") {
		t.Errorf("%d %q", status, messages)
	}
	if status, out, messages := rtSite(t, dir, "--config", conf, "forget", "--user", "carol"); status != 0 || !strings.Contains(out, "set serve.privacy_key_file, or give the pseudonym as NAME") {
		t.Errorf("%d %q %q", status, out, messages)
	}
	if status, out, _ := rtSite(t, dir, "verify"); status != 0 || !strings.HasPrefix(out, "checked 2 runs with 2 objects") {
		t.Errorf("%d %q", status, out)
	}
}

// With the key of the nodes forget also finds the runs that have the pseudonym of the user.
func TestForgetRunsUnderThePseudonym(t *testing.T) {
	dir, conf := newSite(t)
	if status, out, messages := rtSite(t, dir, "--config", conf, "forget", "--user", "alice", "--pseudonym"); status != 0 {
		t.Fatal(status, out, messages)
	}
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	withKey := filepath.Join(t.TempDir(), "rt.toml")
	if err := os.WriteFile(withKey, bytes.Replace(text, []byte("[privacy]\nkey_file"), []byte("[serve]\nprivacy_key_file"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ conf, want string }{
		{conf, "delete the runs of alice: 0 runs"}, {withKey, "delete the runs of alice: 1 runs with 1 objects"}, {withKey, "delete the runs of alice: 0 runs"},
	} {
		if status, out, messages := rtSite(t, dir, "--config", test.conf, "forget", "--user", "alice"); status != 0 || !strings.HasPrefix(out, test.want) || messages != "" {
			t.Errorf("%d %q %q, want %q", status, out, messages, test.want)
		}
	}
	if status, out, _ := rtSite(t, dir, "verify"); status != 0 || !strings.HasPrefix(out, "checked 1 runs with 1 objects") {
		t.Errorf("%d %q", status, out)
	}
}

// The sessions of the user end, and no others.
func TestForgetEndsSessions(t *testing.T) {
	dir, conf := newSite(t)
	open := func() *sitestores.Stores {
		st, err := sitestores.Open(t.Context(), config.Serve{Dir: dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	st, now := open(), time.Now()
	var failed []error
	for _, user := range []string{"alice", "bob"} {
		s := site.Session{ID: user, Kind: site.SessionShare, User: user, Created: now, Expires: now.Add(time.Hour)}
		failed = append(failed, st.Registry.Sessions.Add(t.Context(), s, site.HashToken(user)))
	}
	if err := errors.Join(append(failed, st.Close())...); err != nil {
		t.Fatal(err)
	}
	if status, out, messages := rtSite(t, dir, "--config", conf, "forget", "--user", "alice"); status != 0 {
		t.Fatal(status, out, messages)
	}
	st = open()
	left, err := st.Registry.Sessions.List(t.Context(), "", now)
	if err := errors.Join(err, st.Close()); err != nil || len(left) != 1 || left[0].User != "bob" {
		t.Errorf("%+v, %v", left, err)
	}
}
