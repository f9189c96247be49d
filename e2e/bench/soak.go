package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// soak runs resource-tracker, which samples once a second as on an idle machine, and at the same time the
// tracker of a job with steps that come and go. It shows their memory after a tenth of the time and at the
// end. The activity of the rest of the machine is shown next to it, because the figures depend on it.
func soak(bin, dir string, span time.Duration) ([]row, error) {
	alone, err := startAlone(bin)
	if err != nil {
		return nil, err
	}
	defer alone.cmd.Process.Kill() // it has exited unless there was an error
	steps, err := startSteps(bin, dir)
	if err != nil {
		return nil, err
	}
	ofAlone, ofSteps := &course{pid: alone.cmd.Process.Pid}, &course{pid: steps.job.tracker}
	time.Sleep(warm)
	var seen int64
	err = follow(span, func() { seen = alone.samples.Load() }, ofAlone, ofSteps)
	n := float64(alone.samples.Load() - seen)
	err = errors.Join(err, alone.stop())
	more, stepsErr := steps.end(ofSteps, span)
	err = errors.Join(err, stepsErr)
	if err != nil {
		return nil, err
	}
	used, passed := ofAlone.used()
	rows := []row{{what: fmt.Sprintf("resource-tracker --interval 1, samples in %s", span), figure: n, unit: ""}}
	rows = append(rows, ofAlone.rows(span, 7)...)
	rows = append(rows,
		row{what: "  of one core", figure: 100 * used / passed, unit: "%", budget: 0.1},
		row{what: "  per sample", figure: used / 1000 / n, unit: "us"},
		row{what: "  context switches per sample", figure: (ofAlone.last.switches - ofAlone.first.switches) / n, unit: ""},
	)
	rows = append(rows, more...)
	busy := float64(ofAlone.last.busy-ofAlone.first.busy) / 100 / (passed / 1e9)
	return append(rows, row{what: "what the machine was busy with meanwhile, they included", figure: 100 * busy, unit: "% of a core"}), nil
}

// alone is a resource-tracker of the node.
type alone struct {
	cmd     *exec.Cmd
	samples atomic.Int64
}

func startAlone(bin string) (*alone, error) {
	a := &alone{cmd: exec.Command(filepath.Join(bin, "resource-tracker"), "--interval", "1")}
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.cmd.Stderr = os.Stderr
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w; run make build first", err)
	}
	go countLines(out, &a.samples)
	return a, nil
}

func (a *alone) stop() error {
	return errors.Join(a.cmd.Process.Signal(syscall.SIGTERM), a.cmd.Wait())
}

// stepsJob is a job that runs one step after the other, most of three seconds, each tenth of a moment: a thousand
// in an hour.
type stepsJob struct {
	cluster *lab
	job     *job
	ended   string // a file with one byte for each step that has ended
}

func startSteps(bin, dir string) (*stepsJob, error) {
	c, err := newCluster(bin, dir)
	if err != nil {
		return nil, err
	}
	l, ok := c.(*lab)
	if !ok {
		return nil, errors.Join(errors.New("steps that come and go need a Slurm, which this machine cannot have"), c.close())
	}
	ended := filepath.Join(dir, "ended-steps")
	err = errors.Join(os.WriteFile(ended, nil, 0o600), os.Chmod(ended, 0o666)) // the job has another user
	script := "while :; do for t in 3 3 3 3 3 3 3 3 3 0; do srun -n1 sleep $t; printf . >>" + ended + "; done; done"
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	j, err := l.submit(script, 1, "10s")
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return &stepsJob{cluster: l, job: j, ended: ended}, nil
}

// end ends the job and returns the rows of its tracker.
func (s *stepsJob) end(c *course, span time.Duration) (rows []row, err error) {
	defer func() { err = errors.Join(err, s.cluster.close()) }()
	if err := s.cluster.end(s.job); err != nil {
		return nil, err
	}
	info, err := os.Stat(s.ended)
	if err != nil {
		return nil, err
	}
	used, passed := c.used()
	rows = []row{{what: "rt-tracker, every 10 s, a job of one step after the other: steps", figure: float64(info.Size()), unit: ""}}
	rows = append(rows, c.rows(span, 8.5)...)
	return append(rows, row{what: "  of one core", figure: 100 * used / passed, unit: "%"}), nil
}

// course is the memory of a process in the course of time.
type course struct {
	pid                int
	first, early, last look
	most               float64 // MiB resident
}

// follow looks at the processes each ten seconds. It calls begun with the first look.
func follow(span time.Duration, begun func(), all ...*course) error {
	begin := time.Now()
	for tick := range time.Tick(min(10*time.Second, span/10)) {
		for _, c := range all {
			l, err := lookAt(c.pid)
			if err != nil {
				return err
			}
			if c.first.at.IsZero() {
				c.first = l
				begun()
			}
			if tick.Sub(begin) < span/10+time.Second {
				c.early = l
			}
			c.last, c.most = l, max(c.most, l.rss)
		}
		if tick.Sub(begin) >= span {
			break
		}
	}
	return nil
}

// used returns the CPU time and the time that has passed, both in nanoseconds.
func (c *course) used() (cpu, passed float64) {
	return float64(c.last.cpu - c.first.cpu), float64(c.last.at.Sub(c.first.at))
}

func (c *course) rows(span time.Duration, budget float64) []row {
	return []row{
		{what: fmt.Sprintf("  resident after %s", span/10), figure: c.early.rss, unit: "MiB", budget: budget},
		{what: fmt.Sprintf("  resident after %s", span), figure: c.last.rss, unit: "MiB", budget: budget},
		{what: "  most, of a look each 10 s", figure: c.most, unit: "MiB", budget: budget},
		{what: fmt.Sprintf("  of it anonymous after %s", span/10), figure: c.early.anon, unit: "MiB"},
		{what: fmt.Sprintf("  of it anonymous after %s", span), figure: c.last.anon, unit: "MiB"},
	}
}

func countLines(from io.Reader, n *atomic.Int64) {
	for lines := bufio.NewScanner(from); lines.Scan(); {
		n.Add(1)
	}
}

// look is the kernel's figures of a process at one instant.
type look struct {
	at        time.Time
	cpu       int64 // ns
	rss, anon float64
	switches  float64
	busy      int64 // of the whole machine, USER_HZ
}

func lookAt(pid int) (l look, err error) {
	l.at = time.Now()
	if l.cpu, err = cpuTime(pid); err != nil {
		return l, err
	}
	if l.rss, err = statusMiB(pid, "VmRSS:"); err != nil {
		return l, err
	}
	if l.anon, err = statusMiB(pid, "RssAnon:"); err != nil {
		return l, err
	}
	if l.switches, err = switches(pid); err != nil {
		return l, err
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return l, err
	}
	var user, nice, system int64
	_, err = fmt.Sscanf(string(stat), "cpu %d %d %d", &user, &nice, &system)
	l.busy = user + nice + system
	return l, err
}
