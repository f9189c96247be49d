package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

const (
	annaUID = 4242
	bertUID = 4343
)

// usersDir returns a directory that all users may enter, with the program rt-spool in it.
func usersDir(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: becomes two users")
	}
	dir, err := os.MkdirTemp("", "rt-users")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	f, err := os.OpenFile(filepath.Join(dir, "rt-spool"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err == nil {
		_, err = io.Copy(f, self)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// asUser runs rt-spool as a user with a home directory below dir.
func asUser(t *testing.T, dir string, uid uint32, args ...string) (out string, status int) {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "rt-spool"), args...)
	cmd.Env = append(os.Environ(), "HOME="+homeOf(t, dir, uid), "XDG_STATE_HOME=", "XDG_CACHE_HOME=", "TMPDIR=/tmp", "TZ=UTC", "LANG=C.UTF-8")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

func homeOf(t *testing.T, dir string, uid uint32) string {
	t.Helper()
	home := filepath.Join(dir, map[uint32]string{annaUID: "anna", bertUID: "bert"}[uid])
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, int(uid), int(uid)); err != nil {
		t.Fatal(err)
	}
	return home
}

// usersRun writes a run of anna. Its tracker lives until the test ends, unless the run is over.
func usersRun(t *testing.T, dir string, job uint64, isOver bool) string {
	t.Helper()
	start := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	run := rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(job), Node: "n1", BootID: "b", Start: start},
		Allocation: rt.Allocation{Scheduler: "slurm", User: "anna", UID: rt.Some[uint64](annaUID), AllocCPUs: rt.Some[uint64](2)},
		Ending:     rt.Ending{State: rt.StateRunning},
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: "n1"}, spool.Options{Access: spool.Access{Owner: true}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(4) {
		s := snapshot(i, start)
		if err := w.Put(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if !isOver {
		t.Cleanup(func() { w.Close() })
		return w.Path()
	}
	run.Apply(rt.Exit{Code: rt.Some[int64](0), Signal: rt.Some[int64](0), Outcome: rt.OutcomeFinished, Source: "epilog", Time: start.Add(3 * time.Second)})
	if err := w.End(run); err != nil {
		t.Fatal(err)
	}
	return w.Path()
}

// A user without root sees the runs of ~/.local/state/rt, and of the configured spool if there is
// one.
func TestOwnSpoolIsShown(t *testing.T) {
	dir := usersDir(t)
	shared, own := filepath.Join(dir, "spool"), filepath.Join(homeOf(t, dir, annaUID), ".local/state/rt")
	for _, d := range []string{shared, own} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	usersRun(t, shared, 12, true)
	mine := usersRun(t, own, 13, true)
	for _, path := range []string{filepath.Dir(filepath.Dir(filepath.Dir(own))), filepath.Dir(filepath.Dir(own)), filepath.Dir(own), own, mine} {
		if err := os.Chown(path, annaUID, annaUID); err != nil {
			t.Fatal(err)
		}
	}
	conf, none := filepath.Join(dir, "rt.toml"), filepath.Join(dir, "none.toml")
	for path, spool := range map[string]string{conf: shared, none: filepath.Join(dir, "none")} {
		if err := os.WriteFile(path, []byte("[spool]\ndir = \""+spool+"\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args         string
		has12, has13 bool
	}{
		{"--config " + conf + " ls", true, true},
		{"--config " + conf + " top --once", true, true},
		{"--config " + conf + " report 13", false, true},
		{"--config " + conf + " report 12", true, false},
		{"--config " + conf + " --spool " + shared + " ls", true, false},
		{"--config " + none + " ls", false, true},
		{"--config " + none + " top --once 13", false, true},
	} {
		out, status := asUser(t, dir, annaUID, strings.Fields(tt.args)...)
		has := func(job string) bool {
			return strings.Contains("\n"+out, "\n"+job+" ") || strings.Contains(out, "Job "+job)
		}
		if status != 0 || has("12") != tt.has12 || has("13") != tt.has13 {
			t.Errorf("%s: status %d, want job 12 %v, job 13 %v:\n%s", tt.args, status, tt.has12, tt.has13, out)
		}
	}
	if out, status := asUser(t, dir, bertUID, "--config", conf, "ls"); status != 0 || out != "rt-spool: 1 file that this user may not read is left out\nno runs\n" {
		t.Errorf("another user: status %d, %s", status, out)
	}
}

// The owner of a job sees it with every verb, while it runs and later. Another user sees only the
// number of files.
func TestEveryVerbShowsOwnJobsOnly(t *testing.T) {
	dir := usersDir(t)
	shared := filepath.Join(dir, "spool")
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	ended := usersRun(t, shared, 12, true)
	running := usersRun(t, shared, 13, false)
	conf := filepath.Join(dir, "rt.toml")
	if err := os.WriteFile(conf, []byte("[spool]\ndir = \""+shared+"\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const leftOut = "2 files that this user may not read are left out"
	for _, tt := range []struct {
		args   string
		has    []string // what the owner sees
		others string   // what another user gets
		status int      // of another user
	}{
		{"ls", []string{"12 ", "13 ", "running", "finished"}, leftOut, 0},
		{"ls --json", []string{`"job_id": 12`, `"job_id": 13`, `"live": true`}, leftOut, 0},
		{"jobs", []string{"12 ", "13 ", "running", "finished"}, leftOut, 0},
		{"jobs --csv", []string{"13,c,anna,", "12,c,anna,"}, leftOut, 0},
		{"top --once", []string{"12 ", "13 ", "running", "finished"}, "left out: 2 that this user may not read", 0},
		{"top --once 13", []string{"Job 13", "running"}, "2 of 2 files may not be read by this user", 1},
		{"report 12", []string{"Job 12", "finished"}, "2 of 2 files may not be read by this user", 1},
		{"report 13", []string{"Job 13", "running"}, "2 of 2 files may not be read by this user", 1},
		{"report " + running, []string{"Job 13"}, "permission denied", 1},
		{"report " + ended, []string{"Job 12"}, "permission denied", 1},
		{"export 13", []string{"timestamp,"}, "2 of 2 files may not be read by this user", 1},
		{"verify", []string{"ok "}, "2 of 2 files may not be read by this user", 1},
	} {
		args := append([]string{"--config", conf}, strings.Fields(tt.args)...)
		out, status := asUser(t, dir, annaUID, args...)
		for _, text := range tt.has {
			if !strings.Contains(out, text) || status != 0 {
				t.Errorf("%s of the owner: status %d, no %q:\n%s", tt.args, status, text, out)
			}
		}
		out, status = asUser(t, dir, bertUID, args...)
		if status != tt.status || !strings.Contains(out, tt.others) || strings.Contains(out, "anna") || strings.Contains(out, "finished") {
			t.Errorf("%s of another user: status %d, want %d and %q:\n%s", tt.args, status, tt.status, tt.others, out)
		}
	}
}

// The owner of a spool sees whose the files are that it may not read, and that they are not damaged.
func TestFilesOfRootInTheSpool(t *testing.T) {
	dir := usersDir(t)
	shared, conf, token := filepath.Join(dir, "spool"), filepath.Join(dir, "rt.toml"), filepath.Join(dir, "token")
	err := os.Mkdir(shared, 0o755)
	if err == nil {
		err = os.Chown(shared, bertUID, bertUID)
	}
	if err == nil {
		err = os.WriteFile(token, []byte("token"), 0o644)
	}
	if err == nil {
		err = os.WriteFile(conf, []byte("[spool]\ndir = \""+shared+"\"\n[sentinel]\nendpoint = \"http://127.0.0.1:1\"\ntoken_file = \""+token+"\"\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := usersRun(t, shared, 12, true)
	reason := path + ": permission denied: it belongs to uid 0, and the directory to this user: as root, chown --reference=" + shared + " " + path + "*"
	for args, status := range map[string]int{"ls": 1, "verify": 1, "drain": 75, "report 12": 1} {
		out, got := asUser(t, dir, bertUID, append([]string{"--config", conf}, strings.Fields(args)...)...)
		shown := strings.ReplaceAll(reason, path+": ", "")
		if got != status || !strings.Contains(out, shown) || strings.Contains(out, "damaged") {
			t.Errorf("%s: status %d, want %d and %q:\n%s", args, got, status, reason, out)
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm"} { // as the message says
		if err := os.Chown(path+suffix, bertUID, bertUID); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	if out, status := asUser(t, dir, bertUID, "--config", conf, "verify"); status != 0 {
		t.Errorf("after chown: status %d:\n%s", status, out)
	}
}
