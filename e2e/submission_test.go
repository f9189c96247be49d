//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// login is a login node: the Slurm of a cluster with the filter, and a site that it asks.
type login struct {
	t        *testing.T
	s        *site
	c        *cluster
	dir      string
	prefix   []string // of a command of the user
	isFilter bool
}

// newLogin makes a login node that asks the site at an address. With isPatient the filter waits for rt-job as long as it
// takes; else it waits as contrib's file says.
func newLogin(t *testing.T, s *site, c *cluster, name, url string, isPatient bool) *login {
	t.Helper()
	u, err := user.Lookup(c.user)
	if err != nil {
		t.Fatal(err)
	}
	l := &login{t, s, c, s.path("login-" + name), []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups", "--"}, true}
	command(t, "install", "-d", "-m", "755", "-o", c.user, l.dir, l.dir+"/cache")
	conf, err := os.ReadFile(s.path("lab", "etc", "slurm.conf"))
	if err != nil {
		t.Fatal(err)
	}
	filter, err := os.ReadFile("../contrib/slurm/cli_filter.lua")
	if err != nil {
		t.Fatal(err)
	}
	filter = bytes.ReplaceAll(filter, []byte("/usr/local/bin/rt-job"), []byte(s.path("bin", "rt-job")+" --config "+l.dir+"/rt.toml"))
	if isPatient {
		filter = bytes.ReplaceAll(filter, []byte("KILL 0.04"), []byte("KILL 240"))
	}
	for file, text := range map[string]string{
		"slurm.conf": string(conf) + "\nCliFilterPlugins=lua\n", "cli_filter.lua": string(filter),
		"rt.toml": fmt.Sprintf("[hooks]\ndisable_file = %q\n[site]\nurl = %q\nmunge_socket = %q\n[advice]\nwaste = 0\nruns = 1\n", l.dir+"/disabled", url, s.path("lab", "munge.d", "socket")),
		"job.sh":  "#!/bin/sh\n#SBATCH -J relax -n1 --mem=1000M\n#SBATCH --time=60\nsleep 1\n",
	} {
		if err := os.WriteFile(l.dir+"/"+file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// run runs a program as the user, in the directory of the jobs. It returns what the program printed, and how long it took.
func (l *login) run(env []string, args ...string) (out, errs string, took time.Duration) {
	l.t.Helper()
	argv := append(slices.Clone(l.prefix), args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	conf := l.dir + "/slurm.conf"
	if !l.isFilter {
		conf = l.s.path("lab", "etc", "slurm.conf")
	}
	cmd.Dir, cmd.Env = l.s.path("out"), append(append(os.Environ(), "XDG_CACHE_HOME="+l.dir+"/cache", "SLURM_CONF="+conf), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		l.t.Fatalf("%q: %v\n%s", args, err, stderr.String())
	}
	return stdout.String(), stderr.String(), time.Since(began)
}

// submit submits the job of the login node and holds it. It returns what the user sees.
func (l *login) submit(options ...string) (errs string, took time.Duration) {
	l.t.Helper()
	return l.submitWith(nil, options...)
}

func (l *login) submitWith(env []string, options ...string) (errs string, took time.Duration) {
	l.t.Helper()
	args := append([]string{"sbatch", "--parsable", "--hold", "--partition=" + l.c.partition}, options...)
	out, errs, took := l.run(env, append(args, l.dir+"/job.sh")...)
	if _, err := strconv.Atoi(strings.TrimSpace(out)); err != nil {
		l.t.Errorf("sbatch %q printed %q", options, out)
	}
	return errs, took
}

// forget removes what the login node has said.
func (l *login) forget() { command(l.t, "sh", "-c", "rm -f "+l.dir+"/cache/rt/advice/said-*") }

// TestSubmission submits jobs through cli_filter/lua. Who has wasteful jobs of the kind gets one line, a day, and a job
// that follows it ends well. With a site that is slow, dead or wrong each job is submitted all the same, without a line.
func TestSubmission(t *testing.T) {
	s := newSite(t, workDir(t))
	c := reportLab(t, s, "serve.munge", fmt.Sprintf("%q", s.path("lab", "munge.d", "socket")), "tracker.interval", `"10s"`, "tracker.first_for", `"5s"`)
	command(t, "ln", "-s", "rt-spool", s.path("bin", "rt-job"))
	l := newLogin(t, s, c, "patient", siteURL(t, s), true)
	line := l.line()

	if errs, _ := l.submit(); errs != "" {
		t.Errorf("with an empty cache: %q", errs)
	}
	kinds := l.dir + "/cache/rt/advice/kinds.json"
	until(t, "the answer of the site", func() bool { return exists(kinds) })
	if errs, _ := l.submit(); errs != "rt-job: "+line {
		t.Errorf("the filter printed %q, and rt-job check %q", errs, line)
	}
	if errs, _ := l.submit("--array=1-3"); errs != "" {
		t.Errorf("the second time: %q", errs)
	}
	l.forget()
	for what, options := range map[string][]string{"another name": {"-J", "other"}, "another request": {"--mem=100"}} {
		if errs, _ := l.submit(options...); errs != "" {
			t.Errorf("%s: %q", what, errs)
		}
	}
	if errs, _ := l.submitWith([]string{"RT_ADVICE=0"}); errs != "" {
		t.Errorf("with RT_ADVICE=0: %q", errs)
	}
	command(t, "touch", l.dir+"/disabled")
	if errs, _ := l.submit(); errs != "" {
		t.Errorf("with the kill switch: %q", errs)
	}
	command(t, "rm", l.dir+"/disabled")
	for _, program := range []string{"srun", "salloc"} {
		_, errs, _ := l.run(nil, program, "-J", "relax", "-n1", "--mem=1000M", "--time=60", "--partition="+c.partition, "true")
		if !strings.Contains(errs, "rt-job: "+line) {
			t.Errorf("%s: %q", program, errs)
		}
		l.forget()
	}
	hit := s.path("out", "hit")
	l.submit("-J", "a'$(touch "+hit+")`touch "+hit+"`;touch "+hit+"\n\"", "--comment=$(touch "+hit+")")
	if exists(hit) {
		t.Error("the name of a job became a command of the shell")
	}

	_, advised, _ := strings.Cut(strings.TrimSuffix(line, " would do\n"), ": ")
	id := c.submit(t, s, s.workload()+" --touch 20 --hold 62", append(strings.Fields(advised), "-J", "relax", "-n1", "--partition="+c.partition, "--chdir="+s.path("out"))...)
	l.others(line)
	if j := c.wait(t, id)[id]; j["JobState"] != "COMPLETED" {
		t.Errorf("the job that follows the advice %s ended with %s, %s", advised, j["JobState"], j["ExitCode"])
	}
	c.root(t, "scancel", "--user="+c.user)
	c.healthy(t)
}

// line runs wasteful jobs and returns the line about them, as a user asks for it.
func (l *login) line() string {
	want := regexp.MustCompile(`^your last \d+ runs? of this job used [0-9.]+ (to [0-9.]+ )?MiB and [0-9:]+( to [0-9:]+)?; you request 1000 MiB and 01:00:00: --mem=\d+M --time=[0-9:]+ would do\n$`)
	line := ""
	for try := range 6 { // a busy machine can miss a last reading, and the newest job then shows nothing
		var ids []int64
		for range 3 {
			ids = append(ids, l.c.submit(l.t, l.s, l.s.workload()+" --touch 20 --hold 62", "-J", "relax", "-n1", "--mem=1000M", "--time=60", "--partition="+l.c.partition, "--chdir="+l.s.path("out")))
		}
		for _, id := range ids {
			l.c.wait(l.t, id)
		}
		drainAll(l.t, l.s)
		line, _, _ = l.run(nil, l.s.path("bin", "rt-job"), "--config", l.dir+"/rt.toml", "check", l.dir+"/job.sh")
		text, _ := l.s.rtSpool(l.t, "report", strconv.FormatInt(ids[2], 10))
		l.t.Logf("after %d jobs: %s%s", 3*(try+1), line, text)
		if want.MatchString(line) {
			return line
		}
	}
	l.t.Fatalf("rt-job check printed %q", line)
	return ""
}

// others submits on login nodes with a filter as it is installed, and logs how much longer each submission takes.
func (l *login) others(line string) {
	t := l.t
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	defer wrong.Close()
	n := 20
	if text := os.Getenv("RT_SUBMISSIONS"); text != "" {
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	without := newLogin(t, l.s, l.c, "without", "http://127.0.0.1:1", false)
	without.isFilter = false
	nodes := []*login{
		without, newLogin(t, l.s, l.c, "up", siteURL(t, l.s), false), newLogin(t, l.s, l.c, "slow", "http://"+silent.Addr().String(), false),
		newLogin(t, l.s, l.c, "dead", "http://127.0.0.1:1", false), newLogin(t, l.s, l.c, "wrong", wrong.URL, false),
	}
	took, lines := make([][]time.Duration, len(nodes)), make([]int, len(nodes))
	for range n {
		for i, node := range nodes { // in turns: all have the same load
			errs, d := node.submit()
			took[i] = append(took[i], d)
			isUp := i == 1
			switch {
			case isUp && errs == "rt-job: "+line:
				lines[i]++
				node.forget()
			case errs != "":
				t.Errorf("%s: %q", node.dir, errs)
			}
		}
	}
	for i, node := range nodes {
		slices.Sort(took[i])
		t.Logf("%s: %d submissions, %d lines; median %v, 99th percentile %v, longest %v", node.dir, n, lines[i], took[i][n/2], took[i][n*99/100], took[i][n-1])
	}
}

// siteURL returns the address of the site from rt.toml.
func siteURL(t *testing.T, s *site) string {
	t.Helper()
	text, err := os.ReadFile(s.config())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines(string(text)) {
		if v, isURL := strings.CutPrefix(line, "endpoint = "); isURL {
			return strings.Trim(v, `"`)
		}
	}
	t.Fatal("rt.toml has no address of the site")
	return ""
}
