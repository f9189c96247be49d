package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/resource-tracker/rt/slurm/launch"
)

// checkConfig reports an error of rt.toml, which has the line.
func (d *Doctor) checkConfig() Check {
	if d.ConfigErr != nil {
		return fail("rt.config", d.ConfigErr.Error(), "the hooks start no tracker, and nothing is delivered; the checks below use the defaults", "correct the line, see rt.toml(5)")
	}
	if !d.exists(d.ConfigFile) {
		return ok("rt.config", "%s does not exist: everything has its default", d.ConfigFile)
	}
	if problem, fix := d.unsafe(d.ConfigFile); problem != "" {
		return fail("rt.config", problem, "another user can run programs as root: tracker.path names one", fix)
	}
	return ok("rt.config", "%s has no error", d.ConfigFile)
}

// checkPrograms checks installed programs and their versions.
func (d *Doctor) checkPrograms(ctx context.Context, programs ...string) {
	_, own, _ := strings.Cut(d.Version, " ")
	for _, program := range programs {
		name, meaning, report := "rt."+program, "no job of this node is tracked", fail
		if program == "resource-tracker" {
			report, meaning = warn, "users cannot track a command with srun resource-tracker"
		}
		file := d.program(program)
		if program == "rt-tracker" && d.Config.Tracker.Path != "" {
			file = d.Config.Tracker.Path
		}
		if file == "" || !d.exists(file) {
			d.add(report(name, fmt.Sprintf("%s is not installed in %s", program, strings.Join(d.Programs, " or ")), meaning, "install the package rt, or run make install"))
			continue
		}
		before := len(d.checks)
		d.checkExecutable(name, file)
		if len(d.checks) > before {
			continue // the doctor may be root and runs no program that another user can change
		}
		out, err := d.Command(ctx, file, "--version")
		_, found, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
		switch {
		case err != nil:
			d.add(report(name, fmt.Sprintf("%s --version: %v", file, err), meaning, "install the package rt, or run make install"))
		case found != own:
			d.add(warn(name, fmt.Sprintf("%s is %s, rt-spool is %s", program, found, own), "the programs are of different versions; the older one may not know the files of the other", "install the package rt, or run make install"))
		default:
			d.add(ok(name, "%s %s", file, found))
		}
	}
}

// checkSwitches checks what keeps the hooks from starting trackers.
func (d *Doctor) checkSwitches() {
	file := d.Config.Hooks.DisableFile
	switch {
	case d.exists(file):
		d.add(warn("rt.kill_switch", file+" exists", "the hooks do nothing: no job of this node is tracked", "rm "+file))
	default:
		d.add(ok("rt.kill_switch", "%s does not exist", file))
	}
	d.add(d.checkBreaker())
	d.checkStateDir()
}

func (d *Doctor) checkBreaker() Check {
	const name = "rt.breaker"
	if !d.exists(d.Config.Tracker.StateDir) {
		return ok(name, "closed: no Prolog has run since the boot")
	}
	state := launch.State{Dir: d.path(d.Config.Tracker.StateDir)}
	b, err := state.ReadBreaker(d.Config.Hooks.BreakerFailures, d.Config.Hooks.BreakerReset.Duration, d.Now())
	remove := fmt.Sprintf("rm %s/breaker@*.json, after the cause in the log is fixed", d.Config.Tracker.StateDir)
	switch {
	case err != nil:
		return unknown(name, err)
	case b.Until.After(d.Now()):
		return fail(name, fmt.Sprintf("open until %s after %d failures in a row", b.Until.Local().Format(time.RFC3339), b.Failures), "the Prologs start no tracker", remove)
	case b.Failures > 0:
		return warn(name, counted(b.Failures, "failure")+" in a row", fmt.Sprintf("trackers do not start; after %d failures the Prologs pause", d.Config.Hooks.BreakerFailures), remove)
	default:
		return ok(name, "closed")
	}
}

// checkStateDir checks the directory in which Prolog and Epilog find each other. The Prolog creates it.
func (d *Doctor) checkStateDir() {
	const name = "rt.state_dir"
	dir := d.Config.Tracker.StateDir
	st, err := os.Stat(d.path(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.add(ok(name, "the first Prolog creates %s", dir))
	case err != nil:
		d.add(unknown(name, err))
	case !st.IsDir():
		d.add(fail(name, dir+" is not a directory", "the hooks cannot start a tracker", "rm "+dir))
	default:
		before := len(d.checks)
		if problem, fix := d.unsafe(dir); problem != "" {
			d.add(fail(name, problem, "the hooks do nothing: the Epilog runs as root and signals the process that a file there names", fix))
		} else if st.Mode().Perm()&0o022 != 0 { // sticky
			d.add(fail(name, fmt.Sprintf("%s can be written by users other than root (mode %04o)", dir, st.Mode().Perm()), "the hooks do nothing: the Epilog signals the process that a file there names", "chmod go-w "+dir))
		}
		d.add(d.checkStateMemory(name))
		d.okUnless(before, name, "%s", dir)
	}
}

// checkStateMemory checks that no disk can hold up the hooks. A process that waits for a frozen or
// dead file system cannot be ended, and slurmd waits for the process.
func (d *Doctor) checkStateMemory(name string) Check {
	dir := d.Config.Tracker.StateDir
	space, err := d.Space(d.path(dir))
	switch {
	case err != nil:
		return unknown(name, err)
	case !space.Memory:
		return fail(name, dir+" is not in memory", "a hook waits without limit if its file system is frozen, and old files are there after a reboot", "set tracker.state_dir in rt.toml to a directory of a tmpfs, such as /run/rt")
	}
	return Check{}
}

// checkLog checks that messages of the hooks arrive.
func (d *Doctor) checkLog() Check {
	const name = "rt.log"
	target := d.Config.Log.Target
	switch {
	case target != "syslog" && !d.exists(path.Dir(target)):
		return warn(name, path.Dir(target)+" does not exist", "errors of hooks and trackers are lost", "install -d "+path.Dir(target))
	case target == "syslog" && !d.exists("/dev/log"):
		return warn(name, "no syslog daemon listens at /dev/log", "errors of hooks and trackers are written to the fallback file of rt-prolog(8)", "start a syslog daemon, or set log.target in rt.toml to a file")
	default:
		return ok(name, "%s", target)
	}
}
