package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt/internal/cgroupfs"
)

// slurmChecks check the settings of Slurm.
type slurmChecks struct{ *Doctor }

func (d slurmChecks) run(ctx context.Context) {
	s, err := d.settings(ctx)
	switch {
	case s.values == nil:
		d.add(fail("slurm.config", fmt.Sprintf("the configuration of Slurm cannot be read: %v", err),
			"what Slurm does with the hooks is not known", "start slurmctld, put scontrol into PATH, or set SLURM_CONF to the path of slurm.conf"))
		return
	case err != nil:
		d.add(warn("slurm.config", fmt.Sprintf("read from %s, because slurmctld gave no answer: %v", s.source, err),
			"the running daemons may have other settings", "scontrol ping"))
	default:
		d.add(ok("slurm.config", "read with %s", s.source))
	}
	d.add(d.checkVersion(ctx, &s))
	d.checkNode(ctx)
	d.checkHook(&s, "Prolog", "rt-prolog", "rt tracks no job on this node")
	d.checkHook(&s, "Epilog", "rt-epilog", "a tracker ends late, and the exit code of the job is not recorded")
	d.checkPrologFlags(&s)
	d.checkPlugins(&s)
	d.add(d.checkTimeout(&s, "PrologTimeout", d.PrologLimit, "hooks.ready_timeout"))
	d.add(d.checkTimeout(&s, "EpilogTimeout", d.EpilogLimit, "hooks.stop_timeout"))
}

func (d slurmChecks) checkVersion(ctx context.Context, s *slurmSettings) Check {
	const name = "slurm.version"
	text, found := s.get("SLURM_VERSION")
	if !found { // then ask the programs on this node
		out, err := d.Command(ctx, "scontrol", "--version")
		if err != nil {
			return unknown(name, err)
		}
		_, text, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	}
	v, err := parseVersion(text)
	switch {
	case err != nil:
		return unknown(name, err)
	case v.before(oldestSlurm):
		return fail(name, "Slurm "+text, "rt needs the environment that the hooks of newer versions have", "update Slurm to "+oldestSlurm.String()+" or later")
	case newestSlurm.before(v):
		return warn(name, "Slurm "+text, "rt was tested with versions up to "+newestSlurm.String(), "rt-spool doctor --try")
	default:
		return ok(name, "Slurm %s", text)
	}
}

// calls matches a call of a hook in a script: the program itself, or the script that calls it.
var calls = map[string]*regexp.Regexp{
	"Prolog": regexp.MustCompile(`(/[^\s"';|&]*/(?:rt-prolog|rt/prolog))\b`),
	"Epilog": regexp.MustCompile(`(/[^\s"';|&]*/(?:rt-epilog|rt/epilog))\b`),
}

// checkHook checks that Slurm starts the hook of rt, and that only root can change it.
func (d slurmChecks) checkHook(s *slurmSettings, setting, program, meaning string) {
	name := "slurm." + strings.ToLower(setting)
	script := d.program(strings.ToLower(setting))
	if script == "" {
		script = "/usr/libexec/rt/" + strings.ToLower(setting)
	}
	line := fmt.Sprintf("%s=%s in slurm.conf, then scontrol reconfigure", setting, script)
	values := s.list(setting)
	if len(values) == 0 {
		d.add(fail(name, "Slurm has no "+setting, meaning, line))
		return
	}
	before := len(d.checks)
	var ours []string
	for _, value := range values {
		files := d.hookFiles(strings.TrimSpace(value))
		if len(files) == 0 {
			d.add(fail(name, fmt.Sprintf("%s names %s, which does not exist", setting, value), "Slurm drains the node at the next job", fmt.Sprintf("install %s on this node, or correct %s in slurm.conf", value, setting)))
		}
		for _, file := range files {
			called, err := d.calledBy(file, setting)
			switch {
			case errors.Is(err, fs.ErrPermission):
				d.add(unknown(name, err))
			case err == nil:
				ours = append(ours, slices.Concat([]string{file}, called)...)
			}
		}
	}
	if len(ours) == 0 && len(d.checks) == before {
		d.add(d.warnNotCalled(name, setting, program, strings.Join(values, ","), script, meaning))
		return
	}
	for _, file := range ours {
		d.checkExecutable(name, file)
	}
	d.okUnless(before, name, "%s", strings.Join(ours, " calls "))
}

// warnNotCalled reports a hook of the site without a call of rt in its text. It can call rt in a way that a search of
// the text does not find, for example with a variable. An earlier run proves nothing: the hook can have changed since.
func (d slurmChecks) warnNotCalled(name, setting, program, hooks, script, meaning string) Check {
	position := map[string]string{"Prolog": "last", "Epilog": "first"}[setting]
	return warn(name, fmt.Sprintf("%s names %s: no call of %s is found there", setting, hooks, program), "if it does not call "+program+" in another way: "+meaning,
		fmt.Sprintf("rt-spool doctor --try, which shows whether a job is tracked; if not, keep the script and add the command: %s || true, as its %s command", script, position))
}

// errNotOurs means that a file calls no hook of rt.
var errNotOurs = errors.New("calls no hook of rt")

// calledBy returns the programs of rt that a file calls; none if the file is the program itself.
func (d slurmChecks) calledBy(file, setting string) ([]string, error) {
	if calls[setting].MatchString(file) && strings.HasPrefix(path.Base(file), "rt-") {
		return nil, nil
	}
	text, err := d.read(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if m := calls[setting].FindStringSubmatch(line); m != nil {
			return m[1:], nil
		}
	}
	return nil, errNotOurs
}

func (d slurmChecks) checkPrologFlags(s *slurmSettings) {
	const name = "slurm.prologflags"
	before := len(d.checks)
	flags, _ := s.get("PrologFlags")
	found := "PrologFlags=" + flags
	const fix = "PrologFlags=Alloc,Contain in slurm.conf, then restart slurmctld and the slurmds"
	if s.has("PrologFlags", "RunInJob") {
		d.add(d.checkRunInJob(name, found, fix))
	}
	hasContain := s.has("PrologFlags", "Contain") || s.has("PrologFlags", "X11") // both imply Alloc
	switch {
	case !hasContain && !s.has("PrologFlags", "Alloc"):
		d.add(warn(name, found+": no Alloc", "the Prolog of a node runs at the first step there; a node without a step has no record", fix))
	case !hasContain:
		d.add(warn(name, found+": no Contain", "a node has no cgroup of the job until a step runs there", fix))
	}
	d.okUnless(before, name, "%s", found)
}

// checkRunInJob checks whether rt-prolog can leave the job's cgroup, in which RunInJob starts it.
func (d slurmChecks) checkRunInJob(name, found, fix string) Check {
	m, err := cgroupfs.ReadMounts(d.path("/proc"))
	if err != nil {
		return Check{} // kernel.cgroup reports it
	}
	if m.V1["memory"]+m.V1["cpuacct"]+m.V1["freezer"] != "" {
		return fail(name, found+" with cgroup v1", "rt-prolog runs in the cgroup of the job; with cgroup v1 it cannot leave it and starts no tracker", fix+": without RunInJob; or use cgroup v2")
	}
	return warn(name, found+": RunInJob", "the shell of the Epilog runs in the cgroup of the job: if the job has used all of its memory, for example with files in /dev/shm, the kernel may end the shell, and Slurm drains the node", fix+": without RunInJob")
}

// checkPlugins checks the plugins and cgroup.conf, which decide what can be read of a job.
func (d slurmChecks) checkPlugins(s *slurmSettings) {
	proctrack, known := s.get("ProctrackType")
	switch {
	case !known:
		d.add(ok("slurm.proctracktype", "not set: Slurm's default is proctrack/cgroup"))
	case proctrack != "proctrack/cgroup":
		d.add(fail("slurm.proctracktype", "ProctrackType="+proctrack, "a job has no cgroup, and rt can read nothing about it", "ProctrackType=proctrack/cgroup in slurm.conf, then restart the slurmds"))
	default:
		d.add(ok("slurm.proctracktype", "ProctrackType=%s", proctrack))
	}
	tasks, _ := s.get("TaskPlugin")
	if s.has("TaskPlugin", "task/cgroup") || s.has("TaskPlugin", "cgroup") {
		d.add(ok("slurm.taskplugin", "TaskPlugin=%s", tasks))
	} else {
		d.add(warn("slurm.taskplugin", "TaskPlugin="+tasks+": no task/cgroup", "Slurm sets no limits in the cgroups of jobs: a report shows no limit of memory and CPUs", "TaskPlugin=task/cgroup,task/affinity in slurm.conf"))
	}
	gather, _ := s.get("JobAcctGatherType")
	switch strings.TrimPrefix(gather, "jobacct_gather/") {
	case "cgroup", "linux":
		d.add(ok("slurm.jobacctgather", "JobAcctGatherType=%s", gather))
	default:
		d.add(warn("slurm.jobacctgather", "JobAcctGatherType="+gather, "sacct has no usage to compare with; with cgroup v2 the jobs may have no memory controller", "JobAcctGatherType=jobacct_gather/cgroup in slurm.conf"))
	}
	d.add(d.checkCgroupPlugin(s))
	d.add(d.checkConstraint(s, "ConstrainRAMSpace", "jobs have no memory limit in their cgroup: a report shows no limit, and a job that takes too much memory can end other jobs"))
	d.add(d.checkConstraint(s, "ConstrainCores", "jobs are not bound to their CPUs: a job can use the CPUs of others"))
}

// checkCgroupPlugin checks that slurmd makes cgroups, and in a hierarchy that this machine has.
func (d slurmChecks) checkCgroupPlugin(s *slurmSettings) Check {
	const name = "slurm.cgroupplugin"
	plugin, _ := s.get("CgroupPlugin")
	plugin = strings.TrimPrefix(plugin, "cgroup/")
	m, err := cgroupfs.ReadMounts(d.path("/proc"))
	const fix = "CgroupPlugin=autodetect in cgroup.conf, then restart the slurmds"
	isMissing := (plugin == "v1" && m.V1["freezer"] == "") || (plugin == "v2" && m.V2 == "")
	switch {
	case plugin == "disabled":
		return fail(name, "CgroupPlugin=disabled", "a job has no cgroup, and rt can read nothing about it", fix)
	case err != nil:
		return unknown(name, err)
	case isMissing:
		return fail(name, "CgroupPlugin=cgroup/"+plugin+", and this machine has another version of cgroups", "slurmd does not start", fix)
	case plugin == "":
		return ok(name, "the default")
	default:
		return ok(name, "CgroupPlugin=%s", plugin)
	}
}

// checkConstraint checks a setting of cgroup.conf. scontrol prints it after the settings of
// slurm.conf.
func (d slurmChecks) checkConstraint(s *slurmSettings, setting, meaning string) Check {
	name := "slurm." + strings.ToLower(setting)
	value, known := s.get(setting)
	switch {
	case !known && !s.isFile:
		return unknown(name, errors.New("scontrol show config prints no settings of cgroup.conf"))
	case strings.EqualFold(value, "yes"):
		return ok(name, "%s=yes", setting)
	default:
		return warn(name, setting+"="+cmp.Or(value, "no"), meaning, setting+"=yes in cgroup.conf, then restart the slurmds")
	}
}

// checkTimeout checks that Slurm does not kill a hook of rt. Slurm 25.05 has one limit for each kind of
// hook; older versions have one for both.
func (d slurmChecks) checkTimeout(s *slurmSettings, setting string, need time.Duration, key string) Check {
	name := "slurm." + strings.ToLower(setting)
	for _, setting := range []string{setting, "PrologEpilogTimeout"} {
		limit, isLimit := s.seconds(setting)
		if isLimit && limit < need {
			return fail(name, fmt.Sprintf("%s=%d", setting, int(limit.Seconds())), fmt.Sprintf("the hook takes up to %s; Slurm kills it after %s and drains the node", need, limit),
				fmt.Sprintf("%s=%d in slurm.conf, or a shorter %s in rt.toml", setting, int((need+time.Second-1)/time.Second), key))
		}
	}
	return ok(name, "the hook takes at most %s", need)
}

// checkNode checks that Slurm starts jobs on this machine. A machine can be several nodes.
func (d *Doctor) checkNode(ctx context.Context) {
	const name = "slurm.node"
	out, err := d.Command(ctx, "sinfo", "--noheader", "--Node", "--format=%N|%n|%T")
	if err != nil {
		d.add(unknown(name, err))
		return
	}
	short, _, _ := strings.Cut(d.Hostname, ".")
	before := len(d.checks)
	state := ""
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		isHere := len(fields) == 3 && (fields[1] == d.Hostname || fields[1] == short)
		if !isHere || slices.Contains(d.nodes, fields[0]) {
			continue
		}
		d.nodes = append(d.nodes, fields[0])
		state = fields[2]
		if isAway(state) {
			d.add(fail(name, fmt.Sprintf("Slurm starts no job on %s: it is %s; reason: %s", fields[0], state, d.reason(ctx, fields[0])), "no job runs here, and so none is tracked",
				fmt.Sprintf("fix the reason, then scontrol update NodeName=%s State=RESUME", fields[0])))
		}
	}
	if len(d.nodes) == 0 {
		d.add(fail(name, "no node of Slurm has the host name "+d.Hostname, "no job runs here, and so none is tracked", "a NodeName line with NodeHostname="+d.Hostname+" in slurm.conf"))
		return
	}
	d.okUnless(before, name, "%s is %s", strings.Join(d.nodes, ", "), state)
}

// reason returns why a node gets no job. People write this text, so it has a call of its own.
func (d *Doctor) reason(ctx context.Context, node string) string {
	out, err := d.Command(ctx, "sinfo", "--noheader", "--nodes="+node, "--format=%E")
	if err != nil {
		return fmt.Sprintf("not known: %v", err)
	}
	return strings.Join(strings.Fields(string(out)), " ")
}

// isAway reports whether a node in this state, as sinfo prints it, gets no job. A star means that it does not answer.
func isAway(state string) bool {
	for _, word := range []string{"drain", "down", "fail", "unknown", "*"} {
		if strings.Contains(state, word) {
			return true
		}
	}
	return false
}
