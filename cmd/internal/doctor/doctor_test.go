package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/spool"
)

// machine is a sound machine. A test breaks parts of it.
type machine struct {
	Doctor
	t           *testing.T
	settings    map[string]string // of scontrol show config; empty: slurmctld gives no answer
	commands    map[string]string // standard output by program; a missing program fails
	status      int               // of the receiver's answer
	answerType  string            // of the receiver's answer
	offset      time.Duration     // of the receiver's clock
	isElsewhere bool              // the API is at another path of the server
	server      *httptest.Server
	gpus        []rt.GPUReading
	gpuErr      error // of reading the GPUs
	munge       error // of munged
}

// slurm2205 has the settings of scontrol show config that the doctor reads, of a sound cluster.
var slurm2205 = map[string]string{
	"SLURM_VERSION": "22.05.8", "SLURM_CONF": "/etc/slurm/slurm.conf",
	"Prolog": "/usr/local/libexec/rt/prolog", "Epilog": "/usr/local/libexec/rt/epilog",
	"PrologFlags": "Alloc,Contain", "PrologEpilogTimeout": "65534",
	"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/cgroup,task/affinity", "JobAcctGatherType": "jobacct_gather/cgroup",
	"ConstrainRAMSpace": "yes", "ConstrainCores": "yes",
}

const hookScript = "#!/bin/sh\n# rt-prolog, rt-epilog\ntrap 'exit 0' EXIT\n/usr/local/libexec/rt/rt-HOOK \"$@\"\n"

// allowRemoval undoes modes in which a user who is not root cannot empty a directory.
func (m *machine) allowRemoval() {
	err := filepath.WalkDir(m.Root, func(file string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			return os.Chmod(file, 0o755)
		}
		return err
	})
	if err != nil {
		m.t.Error(err)
	}
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, settings: map[string]string{}, commands: map[string]string{}, status: http.StatusNotFound, answerType: "application/json"}
	for k, v := range slurm2205 {
		m.settings[k] = v
	}
	m.Root, m.Admin, m.Version = root, uint32(os.Getuid()), "rt-spool 0.1.0 (go1.26)"
	m.ConfigFile, m.Config = "/etc/rt/rt.toml", config.Default()
	m.Programs = []string{"/usr/local/bin", "/usr/local/libexec/rt"}
	m.PrologLimit, m.EpilogLimit = 4550*time.Millisecond, 6300*time.Millisecond
	m.Command, m.Now = m.command, time.Now
	m.HTTP = func(string) (*http.Client, error) { return m.server.Client(), nil }
	m.Space = spaceOf(Space{Free: 100 << 30})
	m.GPUs = func(context.Context) ([]rt.GPUReading, error) { return m.gpus, m.gpuErr }
	m.Munge = func(string) func(*http.Request) error {
		return func(r *http.Request) error {
			r.Header.Set("Authorization", "MUNGE credential")
			return m.munge
		}
	}
	m.Wait = func(context.Context, time.Duration) bool { return false }
	m.Hostname = "n1.example.org"
	m.commands["sinfo"] = "n0|n0|down*\nn1|n1|mixed\n"

	m.write("/usr/local/bin/resource-tracker", "program", 0o755)
	m.commands["/usr/local/bin/resource-tracker"] = "resource-tracker 0.1.0 (go1.26)\n"
	m.write("/usr/sbin/slurmd", "program", 0o755)
	for _, program := range []string{"rt-prolog", "rt-epilog", "rt-tracker"} {
		file := "/usr/local/libexec/rt/" + program
		m.write(file, "program", 0o755)
		m.commands[file] = program + " 0.1.0 (go1.26)\n"
	}
	for _, name := range []string{"prolog", "epilog"} {
		m.write("/usr/local/libexec/rt/"+name, strings.ReplaceAll(hookScript, "HOOK", name), 0o755)
	}
	m.write("/etc/passwd", "root:x:0:0::/root:/bin/sh\nrt:x:"+itoa(os.Getuid())+":4711::/var/spool/rt:/usr/sbin/nologin\n", 0o644)
	m.write("/etc/rt/rt.toml", "", 0o644)
	m.write("/etc/rt/sentinel-token", "hunter2", 0o600)
	m.write("/dev/log", "", 0o644)
	m.write("/var/lib/rt/host.json", "{}", 0o644)
	m.mkdir("/var/spool/rt", 0o755)
	t.Cleanup(m.allowRemoval)
	m.drained(time.Now(), 0)
	m.mkdir("/run/rt", 0o755)
	m.write("/proc/self/mountinfo", "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", 0o444)
	m.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n", 0o444)
	m.write("/proc/pressure/cpu", "some avg10=0.00\n", 0o444)
	m.write("/proc/sys/kernel/osrelease", "6.1.0-13-amd64\n", 0o444)
	m.write("/proc/sys/kernel/perf_event_paranoid", "3\n", 0o444)
	m.write("/proc/sys/fs/inotify/max_user_instances", "128\n", 0o444)
	m.write("/proc/sys/fs/inotify/max_user_watches", "65536\n", 0o444)

	m.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(m.offset).UTC().Format(http.TimeFormat))
		w.Header().Set("Content-Type", m.answerType)
		status := m.status
		lacksToken := status == http.StatusNotFound && !m.isElsewhere && r.Header.Get("Authorization") == ""
		if lacksToken {
			status = http.StatusUnauthorized
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"detail":"there is no such run"}`) // the client has gone
	}))
	t.Cleanup(m.server.Close)
	m.Config.Sentinel.Endpoint, m.Config.Sentinel.AllowHTTP = m.server.URL, true
	return m
}

// cgroupV1 mounts the controllers of cgroup v1.
func (m *machine) cgroupV1() {
	m.write("/proc/self/mountinfo", "31 1 0:27 / /c/freezer rw - cgroup cgroup rw,freezer\n32 1 0:28 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n33 1 0:29 / /c/memory rw - cgroup cgroup rw,memory\n", 0o444)
}

// encrypt lets the receiver use TLS, with a certificate that the client trusts.
func (m *machine) encrypt() {
	handler := m.server.Config.Handler
	m.server = httptest.NewTLSServer(handler)
	m.t.Cleanup(m.server.Close)
	m.Config.Sentinel.Endpoint, m.Config.Sentinel.AllowHTTP = m.server.URL, false
}

// elsewhere returns a URL of the receiver that is not of this machine.
func (m *machine) elsewhere() string {
	address := m.server.Listener.Addr().String()
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	m.t.Cleanup(transport.CloseIdleConnections)
	m.HTTP = func(string) (*http.Client, error) { return &http.Client{Transport: transport}, nil }
	return "http://receiver.example.org"
}

func itoa(n int) string { return big.NewInt(int64(n)).String() }

// write creates a file, or replaces it.
func (m *machine) write(name, text string, mode os.FileMode) {
	m.t.Helper()
	m.mkdir(filepath.Dir(name), 0o755)
	m.remove(name)
	if err := os.WriteFile(m.path(name), []byte(text), mode); err != nil {
		m.t.Fatal(err)
	}
	m.chmod(name, mode)
}

func (m *machine) mkdir(name string, mode os.FileMode) {
	m.t.Helper()
	if err := os.MkdirAll(m.path(name), mode); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) chmod(name string, mode os.FileMode) {
	m.t.Helper()
	if err := os.Chmod(m.path(name), mode); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) remove(name string) {
	m.t.Helper()
	if err := os.RemoveAll(m.path(name)); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) command(_ context.Context, name string, args ...string) ([]byte, error) {
	if isVersion := name == "scontrol" && args[0] == "--version"; isVersion && m.commands[name] != "" {
		return []byte(m.commands[name]), nil
	}
	if name == "sinfo" && strings.HasPrefix(args[1], "--nodes=") {
		name += " " + args[1]
	}
	if name != "scontrol" {
		out, found := m.commands[name]
		if !found {
			return nil, errors.New("exit status 127")
		}
		return []byte(out), nil
	}
	if len(m.settings) == 0 {
		return nil, errors.New("slurm_load_ctl_conf error: Unable to contact slurm controller")
	}
	var text strings.Builder
	text.WriteString("Configuration data as of 2026-11-24T04:00:00\n")
	for key, value := range m.settings {
		text.WriteString(key + strings.Repeat(" ", max(1, 24-len(key))) + "= " + value + "\n")
	}
	return []byte(text.String()), nil
}

// condition is one that the doctor finds.
type condition struct {
	name   string // of the check
	status Status
	text   string // part of the finding
	broken func(m *machine)
}

// set returns a function that changes a setting of Slurm.
func set(key, value string) func(*machine) {
	return func(m *machine) { m.settings[key] = value }
}

var nodeConditions = []condition{
	{"slurm.config", Failure, "SLURM_CONF names", func(m *machine) { m.SlurmConf = "/etc/slurm/none.conf" }},
	{"slurm.config", Failure, "cannot be read", func(m *machine) { m.settings = nil }},
	{"slurm.config", Warning, "/etc/slurm/slurm.conf", func(m *machine) {
		m.settings = nil
		m.write("/etc/slurm/slurm.conf", "Prolog=/usr/local/libexec/rt/prolog # rt\nEpilog=/usr/local/libexec/rt/epilog\n", 0o644)
	}},
	{"slurm.version", Failure, "21.08", set("SLURM_VERSION", "21.08.4")},
	{"slurm.version", Warning, "27.05", set("SLURM_VERSION", "27.05.0")},
	{"slurm.version", Failure, "20.11", func(m *machine) {
		m.settings = nil
		m.commands["scontrol"] = "slurm-wlm 20.11.9\n"
		m.write("/etc/slurm/slurm.conf", "Prolog=/usr/local/libexec/rt/prolog\n", 0o644)
	}},
	{"slurm.node", Failure, "drained; reason: Prolog n2|n1|idle", func(m *machine) {
		m.commands["sinfo"], m.commands["sinfo --nodes=n1"] = "n1|n1|drained\n", "Prolog\nn2|n1|idle\n"
	}},
	{"slurm.node", Failure, "down*", func(m *machine) { m.commands["sinfo"] = "n1|n1.example.org|down*\n" }},
	{"slurm.node", Failure, "no node of Slurm has the host name n1", func(m *machine) { m.commands["sinfo"] = "n2|n2|idle\n" }},
	{"slurm.node", Unknown, "exit status", func(m *machine) { delete(m.commands, "sinfo") }},
	{"slurm.cgroupplugin", Failure, "disabled", set("CgroupPlugin", "disabled")},
	{"slurm.cgroupplugin", Failure, "another version", set("CgroupPlugin", "cgroup/v1")},
	{"slurm.constraincores", Warning, "no", func(m *machine) {
		m.settings = nil
		m.write("/etc/slurm/slurm.conf", "Prolog=/usr/local/libexec/rt/prolog\n", 0o644)
		m.write("/etc/slurm/cgroup.conf", "ConstrainCores=no\nConstrainRAMSpace=yes\n", 0o644)
	}},
	{"slurm.version", Unknown, "Unable to contact", func(m *machine) {
		m.settings = nil
		m.write("/etc/slurm/slurm.conf", "Prolog=/usr/local/libexec/rt/prolog\n", 0o644)
	}},
	{"slurm.prolog", Failure, "has no Prolog", set("Prolog", "(null)")},
	{"slurm.prolog", Warning, "no call of rt-prolog", func(m *machine) {
		m.write("/etc/slurm/prolog", "#!/bin/sh\n# /usr/local/libexec/rt/prolog\nexit 0\n", 0o755)
		m.settings["Prolog"] = "/etc/slurm/prolog"
	}},
	{"slurm.prolog", Failure, "does not exist", set("Prolog", "/etc/slurm/none")},
	{"slurm.prolog", Failure, "not executable", func(m *machine) { m.chmod("/usr/local/libexec/rt/prolog", 0o644) }},
	{"slurm.prolog", Failure, "rt-prolog is not executable", func(m *machine) { m.chmod("/usr/local/libexec/rt/rt-prolog", 0o644) }},
	{"slurm.prolog", Failure, "written by users", func(m *machine) { m.chmod("/usr/local/libexec/rt/prolog", 0o775) }},
	{"slurm.prolog", Failure, "/usr/local can be written", func(m *machine) { m.chmod("/usr/local", 0o777) }},
	{"slurm.prolog", Failure, "not to root", func(m *machine) { m.Admin++ }},
	{"slurm.prolog", Failure, "rt-prolog does not exist", func(m *machine) { m.remove("/usr/local/libexec/rt/rt-prolog") }},
	{"slurm.epilog", Failure, "has no Epilog", set("Epilog", "(null)")},
	{"slurm.epilog", Failure, "not executable", func(m *machine) { m.chmod("/usr/local/libexec/rt/epilog", 0o600) }},
	{"slurm.epilog", Warning, "no call of rt-epilog", set("Epilog", "/usr/local/libexec/rt/prolog")},
	{"slurm.prolog", Warning, "no call of rt-prolog", (*machine).wrap},
	{"slurm.epilog", Warning, "no call of rt-epilog", (*machine).wrap},
	{"slurm.epilog", Warning, "no call of rt-epilog", func(m *machine) { // a run proves nothing: the Epilog can have changed since
		m.wrap()
		m.spooled(time.Now())
	}},
	{"slurm.prologflags", Failure, "RunInJob with cgroup v1", func(m *machine) {
		m.settings["PrologFlags"] = "Alloc,Contain,RunInJob"
		m.write("/proc/self/mountinfo", "31 1 0:27 / /c/freezer rw - cgroup cgroup rw,freezer\n32 1 0:28 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n33 1 0:29 / /c/memory rw - cgroup cgroup rw,memory\n", 0o444)
	}},
	{"slurm.prologflags", Warning, "RunInJob", set("PrologFlags", "Alloc,Contain,RunInJob")},
	{"slurm.prologflags", Warning, "no Alloc", set("PrologFlags", "(null)")},
	{"slurm.prologflags", Warning, "no Contain", set("PrologFlags", "Alloc")},
	{"slurm.proctracktype", Failure, "linuxproc", set("ProctrackType", "proctrack/linuxproc")},
	{"slurm.taskplugin", Warning, "no task/cgroup", set("TaskPlugin", "task/affinity")},
	{"slurm.jobacctgather", Warning, "none", set("JobAcctGatherType", "jobacct_gather/none")},
	{"slurm.constrainramspace", Warning, "no", set("ConstrainRAMSpace", "no")},
	{"slurm.constraincores", Warning, "no", set("ConstrainCores", "no")},
	{"slurm.prologtimeout", Failure, "PrologEpilogTimeout=3", set("PrologEpilogTimeout", "3")},
	{"slurm.prologtimeout", Failure, "PrologTimeout=4", set("PrologTimeout", "4 sec")},
	{"slurm.epilogtimeout", Failure, "EpilogTimeout=6", set("EpilogTimeout", "6 sec")},
	{"kernel.cgroup", Failure, "no cgroup", func(m *machine) { m.write("/proc/self/mountinfo", "", 0o444) }},
	{"kernel.cgroup", Unknown, "mountinfo", func(m *machine) { m.remove("/proc/self/mountinfo") }},
	{"kernel.controllers", Failure, "memory", func(m *machine) { m.write("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n", 0o444) }},
	{"kernel.controllers", Failure, "v1 without the controller memory", func(m *machine) {
		m.write("/proc/self/mountinfo", "31 1 0:27 / /c/freezer rw - cgroup cgroup rw,freezer\n32 1 0:28 / /c/cpu rw - cgroup cgroup rw,cpu,cpuacct\n", 0o444)
	}},
	{"kernel.psi", Warning, "pressure", func(m *machine) { m.remove("/proc/pressure") }},
	{"kernel.memory_peak", Warning, "5.14.0", func(m *machine) { m.write("/proc/sys/kernel/osrelease", "5.14.0-70.el9.x86_64\n", 0o444) }},
	{"kernel.inotify_max_user_instances", Warning, "=16", func(m *machine) { m.write("/proc/sys/fs/inotify/max_user_instances", "16\n", 0o444) }},
	{"kernel.inotify_max_user_watches", Warning, "=100", func(m *machine) { m.write("/proc/sys/fs/inotify/max_user_watches", "100\n", 0o444) }},
	{"kernel.rapl", Warning, "empty", func(m *machine) { m.write("/sys/class/powercap/intel-rapl:0/energy_uj", "", 0o400) }},
	{"kernel.perf", Failure, "no perf events", func(m *machine) {
		m.Config.Perf.Core = "cycles"
		m.remove("/proc/sys/kernel/perf_event_paranoid")
	}},
	{"kernel.perf", Warning, "CAP_PERFMON", func(m *machine) {
		m.Config.Perf.Core = "cycles"
		m.write("/proc/sys/kernel/osrelease", "5.4.0\n", 0o444)
	}},
	{"rt.rt-prolog", Failure, "not installed", func(m *machine) { m.remove("/usr/local/libexec/rt/rt-prolog") }},
	{"rt.rt-tracker", Failure, "not installed", func(m *machine) { m.remove("/usr/local/libexec/rt/rt-tracker") }},
	{"rt.rt-tracker", Failure, "not executable", func(m *machine) { m.chmod("/usr/local/libexec/rt/rt-tracker", 0o644) }},
	{"rt.rt-prolog", Warning, "0.0.9", func(m *machine) { m.commands["/usr/local/libexec/rt/rt-prolog"] = "rt-prolog 0.0.9 (go1.26)\n" }},
	{"rt.rt-tracker", Warning, "0.0.9", func(m *machine) { m.commands["/usr/local/libexec/rt/rt-tracker"] = "rt-tracker 0.0.9 (go1.26)\n" }},
	{"rt.resource-tracker", Warning, "0.0.9", func(m *machine) {
		m.commands["/usr/local/bin/resource-tracker"] = "resource-tracker 0.0.9 (go1.26)\n"
	}},
	{"rt.rt-epilog", Failure, "not installed", func(m *machine) { m.remove("/usr/local/libexec/rt/rt-epilog") }},
	{"rt.rt-epilog", Failure, "can be written", func(m *machine) { m.chmod("/usr/local/libexec/rt/rt-epilog", 0o777) }},
	{"rt.rt-tracker", Failure, "exit status 127", func(m *machine) { delete(m.commands, "/usr/local/libexec/rt/rt-tracker") }},
	{"rt.rt-epilog", Warning, "0.0.9", func(m *machine) { m.commands["/usr/local/libexec/rt/rt-epilog"] = "rt-epilog 0.0.9 (go1.26)\n" }},
	{"rt.kill_switch", Warning, "/etc/rt/disabled", func(m *machine) { m.write("/etc/rt/disabled", "", 0o644) }},
	{"rt.breaker", Failure, "5 failures", func(m *machine) {
		m.write("/run/rt/breaker@n1.json", `{"failures":5,"until":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`, 0o644)
	}},
	{"rt.breaker", Warning, "2 failures", func(m *machine) { m.write("/run/rt/breaker@n1.json", `{"failures":2}`, 0o644) }},
	{"rt.state_dir", Failure, "written by users", func(m *machine) { m.chmod("/run/rt", 0o777) }},
	{"rt.state_dir", Failure, "written by users", func(m *machine) { m.chmod("/run/rt", 0o777|os.ModeSticky) }},
	{"rt.state_dir", Failure, "not in memory", func(m *machine) {
		m.mkdir("/var/lib/rt/state", 0o755)
		m.Config.Tracker.StateDir = "/var/lib/rt/state"
	}},
	{"rt.state_dir", Failure, "not a directory", func(m *machine) { m.write("/run/rt", "", 0o644) }},
	{"rt.user", Failure, "not in /etc/passwd", func(m *machine) { m.write("/etc/passwd", "root:x:0:0::/:/bin/sh\n", 0o644) }},
	{"rt.log", Warning, "no syslog", func(m *machine) { m.remove("/dev/log") }},
	{"rt.log", Warning, "/var/log/rt does not exist", func(m *machine) { m.Config.Log.Target = "/var/log/rt/rt.log" }},
	{"rt.host_cache", Warning, "host.json", func(m *machine) { m.remove("/var/lib/rt/host.json") }},
	{"spool.dir", Failure, "does not exist", func(m *machine) { m.remove("/var/spool/rt") }},
	{"spool.dir", Failure, "not a directory", func(m *machine) { m.write("/var/spool/rt", "", 0o644) }},
	{"spool.dir", Failure, "not to rt", func(m *machine) { m.write("/etc/passwd", "rt:x:4711:4711::/:/bin/sh\n", 0o644) }},
	{"spool.dir", Failure, "other users", func(m *machine) { m.chmod("/var/spool/rt", 0o777) }},
	{"spool.dir", Failure, "by its owner", func(m *machine) { m.chmod("/var/spool/rt", 0o555) }},
	{"spool.filesystem", Failure, "network", func(m *machine) { m.Space = spaceOf(Space{Free: 1 << 40, Network: true}) }},
	{"spool.filesystem", Warning, "in memory", func(m *machine) { m.Space = spaceOf(Space{Free: 1 << 40, Memory: true}) }},
	{"spool.room", Failure, "1 MiB", func(m *machine) { m.Space = spaceOf(Space{Free: 1 << 20}) }},
	{"spool.room", Warning, "quota_node", func(m *machine) { m.Space = spaceOf(Space{Free: 500 << 20}) }},
	{"spool.files", Warning, "cannot be read", func(m *machine) { m.write("/var/spool/rt/1.db", "no database", 0o600) }},
	{"spool.quota", Warning, "are used", func(m *machine) {
		m.write("/var/spool/rt/1.db", strings.Repeat("x", 2<<20), 0o600)
		m.Config.Spool.QuotaNode.Bytes = 2 << 20
	}},
	{"spool.backlog", Warning, "1 runs wait", func(m *machine) { m.spooled(time.Now().Add(-48 * time.Hour)) }},
	{"spool.dir", Failure, "may not search /var/spool", func(m *machine) {
		m.write("/etc/passwd", "rt:x:4711:4711::/:/bin/sh\n", 0o644)
		m.chmod("/var/spool", 0o700)
	}},
	{"spool.filesystem", Failure, "read-only", func(m *machine) { m.Space = spaceOf(Space{Free: 1 << 40, ReadOnly: true}) }},
	{"spool.room", Failure, "inode", func(m *machine) { m.Space = spaceOf(Space{Free: 1 << 40, NoFiles: true}) }},
	{"spool.drain", Warning, "no drain has run", func(m *machine) { m.remove("/var/spool/rt/.drains.json") }},
	{"spool.drain", Warning, "the last drain ended at", func(m *machine) { m.drained(time.Now().Add(-48*time.Hour), 0) }},
	{"spool.drain", Warning, "3 drains in a row", func(m *machine) { m.drained(time.Now(), 3) }},
	{"gpu.driver", Warning, "not loaded", func(m *machine) {
		m.write("/sys/bus/pci/devices/0000:41:00.0/vendor", "0x10de\n", 0o444)
		m.write("/sys/bus/pci/devices/0000:41:00.0/class", "0x030200\n", 0o444)
	}},
	{"gpu.devices", Warning, "/dev/nvidia0", func(m *machine) { m.write("/proc/driver/nvidia/version", "NVRM version: 550", 0o444) }},
	{"gpu.devices", Warning, "libnvidia-ml.so.1", func(m *machine) {
		m.nvidia()
		m.gpuErr = errors.New("libnvidia-ml.so.1 cannot be loaded")
	}},
	{"gpu.mig", Warning, "no instance", func(m *machine) {
		m.nvidia()
		m.gpus[0].Detail = map[string]string{"mig_mode": "enabled"}
	}},
	{"receiver.token_file", Warning, "rt may not read", func(m *machine) { m.write("/etc/passwd", "rt:x:4711:4711::/:/bin/sh\n", 0o644) }},
	{"receiver.token_file", Warning, "may not search /etc/rt", func(m *machine) {
		m.write("/etc/passwd", "rt:x:4711:4711::/:/bin/sh\n", 0o644)
		m.chmod("/etc/rt", 0o700)
	}},
	{"rt.resource-tracker", Warning, "not installed", func(m *machine) { m.remove("/usr/local/bin/resource-tracker") }},
	{"rt.resource-tracker", Failure, "can be written", func(m *machine) { m.chmod("/usr/local/bin/resource-tracker", 0o777) }},
	{"rt.host_cache", Warning, "written by users", func(m *machine) { m.chmod("/var/lib/rt/host.json", 0o666) }},
	{"site.answer", Failure, "refused", func(m *machine) { m.Config.Site.URL = "http://127.0.0.1:1" }},
	{"receiver.endpoint", Warning, "no receiver", func(m *machine) { m.Config.Sentinel.Endpoint = "" }},
	{"receiver.tls", Warning, "not encrypted", func(m *machine) {
		m.Config.Sentinel.Endpoint, m.Config.Sentinel.AllowHTTP = m.elsewhere(), false
	}},
	{"receiver.token_file", Failure, "all users", func(m *machine) { m.chmod("/etc/rt/sentinel-token", 0o644) }},
	{"receiver.token_file", Failure, "empty", func(m *machine) { m.write("/etc/rt/sentinel-token", "", 0o600) }},
	{"receiver.token_file", Failure, "no such file", func(m *machine) { m.remove("/etc/rt/sentinel-token") }},
	{"receiver.token", Failure, "status 401", func(m *machine) { m.status = http.StatusUnauthorized }},
	{"receiver.token", Failure, "redirects", func(m *machine) { m.status = http.StatusFound }},
	{"receiver.token", Failure, "status 503", func(m *machine) { m.status = http.StatusServiceUnavailable }},
	{"receiver.answer", Failure, "not as this service does: status 404", func(m *machine) { m.answerType = "text/html" }},
	{"receiver.answer", Failure, "not as this service does: status 200", func(m *machine) { m.answerType, m.status = "text/html", http.StatusOK }},
	{"receiver.answer", Failure, "/refresh-credentials: the server has no API at this path", func(m *machine) { m.isElsewhere = true }},
	{"receiver.answer", Failure, "the server speaks https: write https://127.0.0.1:", func(m *machine) {
		m.encrypt()
		m.Config.Sentinel.Endpoint = "http" + strings.TrimPrefix(m.Config.Sentinel.Endpoint, "https")
	}},
	{"receiver.answer", Failure, "the server speaks http: write http://127.0.0.1:", func(m *machine) {
		m.Config.Sentinel.Endpoint = "https" + strings.TrimPrefix(m.Config.Sentinel.Endpoint, "http")
	}},
	{"receiver.store", Failure, "the server speaks https: write https://127.0.0.1:", func(m *machine) {
		m.encrypt()
		m.Config.Sentinel.S3Endpoint = "http" + strings.TrimPrefix(m.server.URL, "https")
	}},
	{"receiver.answer", Failure, "nothing listens there: check the port", func(m *machine) { m.server.Close() }},
	{"receiver.store", Failure, "refused", func(m *machine) { m.Config.Sentinel.S3Endpoint = "http://127.0.0.1:1" }},
	{"receiver.store", Failure, "status 503", func(m *machine) { m.Config.Sentinel.S3Endpoint, m.status = m.server.URL, http.StatusServiceUnavailable }},
	{"receiver.tls", Warning, "not encrypted", func(m *machine) {
		m.Config.Sentinel.S3Endpoint, m.Config.Sentinel.AllowHTTP = m.elsewhere(), false
	}},
	{"receiver.answer", Failure, "refused", func(m *machine) { m.server.Close() }},
	{"receiver.answer", Failure, "bad ca_file", func(m *machine) {
		m.HTTP = func(string) (*http.Client, error) { return nil, errors.New("bad ca_file") }
	}},
	{"receiver.tls", Failure, "certificate", func(m *machine) {
		m.encrypt()
		m.HTTP = func(string) (*http.Client, error) { return &http.Client{}, nil }
	}},
	{"receiver.tls", Failure, "expired", func(m *machine) { m.certificate(-time.Hour) }},
	{"receiver.tls", Warning, "expires on", func(m *machine) { m.certificate(24 * time.Hour) }},
	{"receiver.clock", Warning, "differs by", func(m *machine) { m.offset = -10 * time.Minute }},
}

// spaceOf returns the room of all directories; /run is always in memory.
func spaceOf(s Space) func(string) (Space, error) {
	return func(dir string) (Space, error) {
		if strings.HasSuffix(dir, "/run/rt") {
			return Space{Free: 1 << 30, Memory: true}, nil
		}
		return s, nil
	}
}

// drained lets drains have run. The last drain failed.
func (m *machine) drained(last time.Time, failed int) {
	m.write("/var/spool/rt/.drains.json", fmt.Sprintf(`{"last":%q,"failed":%d}`, last.Format(time.RFC3339), failed), 0o644)
}

// nvidia lets the machine have two GPUs of NVIDIA.
func (m *machine) nvidia() {
	m.write("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.1\nGCC", 0o444)
	m.write("/dev/nvidia0", "", 0o666)
	detail := map[string]string{"nvml_version": "12.550.1"}
	m.gpus = []rt.GPUReading{{UUID: "GPU-0", Name: "H100", Detail: detail}, {UUID: "GPU-1", Name: "H100", Detail: detail}}
}

// spooled writes a run that ended at a time and was not delivered.
func (m *machine) spooled(end time.Time) {
	m.t.Helper()
	run := rt.Run{}
	run.JobID, run.Node, run.BootID = rt.Some(uint64(12)), "n1", "boot"
	run.Start, run.End, run.State = end.Add(-time.Minute), end, rt.StateEnded
	w, err := spool.Create(m.path("/var/spool/rt"), run, rt.Host{}, spool.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := w.End(run); err != nil {
		m.t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		m.t.Fatal(err)
	}
}

// Root reads the files of all users, and still says which ones the drain may not read.
func TestFilesOfAnotherUserInTheSpool(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: gives the spool to another user")
	}
	m := newMachine(t)
	m.spooled(time.Now().Add(-time.Minute))
	if err := os.Chown(m.path("/var/spool/rt"), 4711, -1); err != nil {
		t.Fatal(err)
	}
	checks := m.Run(t.Context(), Node)
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "spool.files" })
	if i < 0 || checks[i].Status != Warning || checks[i].Finding != "1 of 1 files belong to another user than /var/spool/rt" ||
		checks[i].Fix != "chown --reference=/var/spool/rt /var/spool/rt/*.db*" {
		t.Errorf("%+v", checks)
	}
}

// wrap sets hooks of the site in which a search of the text finds no call of rt.
func (m *machine) wrap() {
	m.write("/etc/slurm/wrap-prolog", "#!/bin/sh\nfor s in /etc/slurm/prolog.d/*; do \"$s\"; done\n", 0o755)
	m.write("/etc/slurm/wrap-epilog", "#!/bin/sh\nRT=/usr/local/libexec/rt\n\"$RT\"/epilog || true\n", 0o755)
	m.settings["Prolog"], m.settings["Epilog"] = "/etc/slurm/wrap-prolog", "/etc/slurm/wrap-epilog"
}

// certificate lets the receiver have a certificate that ends after the given time; the client accepts all.
func (m *machine) certificate(left time.Duration) {
	m.encrypt()
	der, key := certificateOf(m.t, left)
	m.server.TLS.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	m.t.Cleanup(client.CloseIdleConnections)
	m.HTTP = func(string) (*http.Client, error) { return client, nil }
}

func certificateOf(t *testing.T, left time.Duration) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(left), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err = x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return der, key
}

// TestNodeConditions breaks a sound node in one way after the other.
func TestNodeConditions(t *testing.T) {
	if n := len(nodeConditions); n < 40 {
		t.Errorf("%d conditions, want at least 40", n)
	}
	check(t, Node, newMachine, slices.Concat(nodeConditions, configConditions))
}

func check(t *testing.T, role Role, sound func(*testing.T) *machine, conditions []condition) {
	run := func(m *machine, ctx context.Context) []Check { return m.Run(ctx, role) }
	checkWith(t, run, sound, conditions)
}

func checkWith(t *testing.T, run func(*machine, context.Context) []Check, sound func(*testing.T) *machine, conditions []condition) {
	for _, c := range conditions {
		t.Run(c.name+"/"+c.text, func(t *testing.T) {
			m := sound(t)
			c.broken(m)
			found := run(m, t.Context())
			isFound := slices.ContainsFunc(found, func(f Check) bool {
				return f.Name == c.name && f.Status == c.status && strings.Contains(f.Finding, c.text)
			})
			if !isFound {
				t.Errorf("no %s of %s with %q:\n%s", c.status, c.name, c.text, printed(t, found))
			}
			for _, f := range found {
				isExplained := f.Status == OK || f.Fix != ""
				if f.Finding == "" || !isExplained {
					t.Errorf("a check without a finding or a fix: %+v", f)
				}
				if strings.Contains(f.Finding+f.Fix, "hunter2") {
					t.Errorf("a check has the token: %+v", f)
				}
			}
		})
	}
}

func printed(t *testing.T, checks []Check) string {
	t.Helper()
	var text strings.Builder
	if err := Print(&text, []Role{Node}, checks, true); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// TestSound: nothing is reported on a sound machine.
func TestSound(t *testing.T) {
	for name, change := range map[string]func(*machine){
		"cgroup v2, Slurm 22.05": func(*machine) {},
		"cgroup v1":              (*machine).cgroupV1,
		"Slurm 24.11": func(m *machine) {
			m.settings["SLURM_VERSION"] = "24.11.5"
			m.settings["Prolog[0]"], m.settings["Epilog[0]"] = m.settings["Prolog"], m.settings["Epilog"]
			delete(m.settings, "Prolog")
			delete(m.settings, "Epilog")
		},
		"Slurm 26.05": func(m *machine) {
			m.settings["SLURM_VERSION"], m.settings["PrologTimeout"], m.settings["EpilogTimeout"] = "26.05.5", "65534 sec", "30 sec"
			delete(m.settings, "PrologEpilogTimeout")
		},
		"the hook is in a directory": func(m *machine) {
			m.write("/etc/slurm/prolog.d/10-site", "#!/bin/sh\nexit 0\n", 0o755)
			m.write("/etc/slurm/prolog.d/90-rt", "#!/bin/sh\n/usr/local/libexec/rt/prolog || true\n", 0o755)
			m.settings["Prolog"] = "/etc/slurm/prolog.d/*"
		},
		"the program itself is the hook": func(m *machine) { m.settings["Prolog"] = "/usr/local/libexec/rt/rt-prolog" },
		"no state before the first job":  func(m *machine) { m.remove("/run/rt") },
		"memory.peak of a distribution": func(m *machine) {
			m.write("/proc/sys/kernel/osrelease", "5.14.0-427.el9.x86_64\n", 0o444)
			m.write("/sys/fs/cgroup/system.slice/memory.peak", "1\n", 0o444)
		},
		"RAPL and perf": func(m *machine) {
			m.write("/sys/class/powercap/intel-rapl:0/energy_uj", "12\n", 0o400)
			m.Config.Perf.Core = "cycles"
		},
		"GPUs with MIG": func(m *machine) {
			m.nvidia()
			m.gpus[1].Detail = map[string]string{"nvml_version": "12.550.1", "mig_mode": "enabled"}
			m.gpus = append(m.gpus, rt.GPUReading{UUID: "MIG-0", Detail: map[string]string{"parent_uuid": "GPU-1"}})
		},
		"the group of rt may read the token": func(m *machine) {
			m.write("/etc/passwd", "rt:x:"+itoa(os.Getuid())+":"+itoa(os.Getgid())+"::/:/bin/sh\n", 0o644)
			m.chmod("/etc/rt/sentinel-token", 0o640)
		},
		"a site": func(m *machine) {
			m.Config.Site.URL, m.Config.Site.AllowHTTP, m.status = m.server.URL, true, http.StatusOK
		},
		"a receiver on this machine":      func(m *machine) { m.Config.Sentinel.AllowHTTP = false },
		"a run that waits since a minute": func(m *machine) { m.spooled(time.Now().Add(-time.Minute)) },
		"TLS":                             (*machine).encrypt,
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			change(m)
			if role := m.FindRoles(); !slices.Equal(role, []Role{Node}) {
				t.Errorf("role %s, want node", role)
			}
			checks := m.Run(t.Context(), Node)
			for _, c := range checks {
				if c.Status != OK {
					t.Errorf("%+v", c)
				}
			}
			if len(checks) < 30 {
				t.Errorf("only %d checks", len(checks))
			}
			if w := Worst(checks); w != OK {
				t.Errorf("worst status %s", w)
			}
		})
	}
}

// newLogin returns a machine on which users read reports of the site.
func newLogin(t *testing.T) *machine {
	m := newMachine(t)
	m.remove("/usr/sbin/slurmd")
	m.Config.Site.URL, m.Config.Site.TokenFile, m.Config.Site.AllowHTTP = m.server.URL, "/etc/rt/read-token", true
	m.write("/etc/rt/read-token", "hunter2", 0o644)
	m.status = http.StatusOK
	return m
}

var loginConditions = []condition{
	{"site.url", Warning, "no site service", func(m *machine) { m.Config.Site.URL = "" }},
	{"site.token_file", Failure, "no such file", func(m *machine) { m.remove("/etc/rt/read-token") }},
	{"site.token", Failure, "status 403", func(m *machine) { m.status = http.StatusForbidden }},
	{"site.answer", Failure, "/v1/whoami: the server has no API at this path", func(m *machine) { m.status, m.isElsewhere = http.StatusNotFound, true }},
	{"site.tls", Warning, "not encrypted", func(m *machine) {
		m.Config.Site.URL, m.Config.Site.AllowHTTP = m.elsewhere(), false
	}},
	{"site.munge", Failure, "munged", func(m *machine) {
		m.Config.Site.TokenFile, m.munge = "", errors.New("munged does not run")
	}},
	{"rt.resource-tracker", Warning, "exit status", func(m *machine) { m.commands = nil }},
	{"rt.resource-tracker", Failure, "can be written", func(m *machine) { m.chmod("/usr/local/bin/resource-tracker", 0o777) }},
	{"site.answer", Failure, "refused", func(m *machine) { m.server.Close() }},
	{"site.answer", Failure, "not as this service does", func(m *machine) { m.answerType = "text/html" }},
	{"site.token_file", Failure, "is empty", func(m *machine) { m.write("/etc/rt/read-token", "", 0o600) }},
	{"site.tls", Failure, "expired", func(m *machine) {
		m.certificate(-time.Hour)
		m.Config.Site.URL = m.server.URL
	}},
	{"site.clock", Warning, "differs by", func(m *machine) { m.offset = -10 * time.Minute }},
	{"rt.resource-tracker", Warning, "0.0.9", func(m *machine) {
		m.commands["/usr/local/bin/resource-tracker"] = "resource-tracker 0.0.9 (go1.26)\n"
	}},
}

// configConditions are the conditions of each role.
var configConditions = []condition{
	{"rt.config", Failure, "rt.toml:3", func(m *machine) { m.ConfigErr = errors.New("/etc/rt/rt.toml:3: unknown key spool.dri") }},
	{"rt.config", Failure, "can be written", func(m *machine) { m.chmod("/etc/rt/rt.toml", 0o666) }},
}

func TestLoginConditions(t *testing.T) {
	m := newLogin(t)
	if role := m.FindRoles(); !slices.Equal(role, []Role{Login}) {
		t.Errorf("role %s, want login", role)
	}
	for _, isAllowed := range []bool{true, false} { // the site is on this machine
		m.Config.Site.AllowHTTP = isAllowed
		if checks := m.Run(t.Context(), Login); Worst(checks) != OK {
			t.Errorf("problems of a sound login node, allow_http %t:\n%s", isAllowed, printed(t, checks))
		}
	}
	check(t, Login, newLogin, slices.Concat(loginConditions, configConditions))
}

// TestHookOfPackage: the line for slurm.conf has the path of the hook that is installed. Slurm drains
// a node if that path does not exist.
func TestHookOfPackage(t *testing.T) {
	for _, dir := range []string{"/usr/libexec/rt", "/usr/local/libexec/rt"} {
		m := newMachine(t)
		m.Programs = []string{dir}
		m.write(dir+"/prolog", "#!/bin/sh\n", 0o755)
		m.settings["Prolog"] = "(null)"
		checks := m.Run(t.Context(), Node)
		i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "slurm.prolog" })
		if i < 0 || !strings.HasPrefix(checks[i].Fix, "Prolog="+dir+"/prolog in slurm.conf") {
			t.Errorf("no fix with %s:\n%s", dir, printed(t, checks))
		}
	}
}

// TestHookOfSite: the doctor does not advise to replace a script of the site.
func TestHookOfSite(t *testing.T) {
	m := newMachine(t)
	m.wrap()
	for _, c := range m.Run(t.Context(), Node) {
		if c.Name != "slurm.prolog" && c.Name != "slurm.epilog" {
			continue
		}
		if c.Status != Warning || strings.Contains(c.Fix, "log=") || !strings.Contains(c.Fix, "keep the script and add the command: /usr/local/libexec/rt/"+c.Name[len("slurm."):]+" || true") {
			t.Errorf("%s: %q", c.Name, c.Fix)
		}
	}
}

// TestUnknownIsNotOK: a check that could not be done is neither ok nor a problem.
func TestUnknownIsNotOK(t *testing.T) {
	m := newMachine(t)
	m.Space = func(string) (Space, error) { return Space{}, os.ErrPermission }
	checks := m.Run(t.Context(), Node)
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == "spool.filesystem" })
	want := Check{Name: "spool.filesystem", Status: Unknown, Finding: "not checked: permission denied", Fix: "run rt-spool doctor as root"}
	if i < 0 {
		t.Fatalf("no check of the file system:\n%s", printed(t, checks))
	}
	if d := cmp.Diff(want, checks[i]); d != "" {
		t.Error(d)
	}
	if w := Worst(checks); w != OK {
		t.Errorf("worst status %s", w)
	}
}
