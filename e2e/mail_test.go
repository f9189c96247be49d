//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMailProg lets slurmctld send the mails of jobs through rt-mail. Each mail arrives once; those about the end of a job
// have the lines of rt-job.
func TestMailProg(t *testing.T) {
	s := newSite(t, workDir(t))
	socket := fmt.Sprintf("%q", s.path("lab", "munge.d", "socket"))
	c := reportLab(t, s, "serve.munge", socket, "serve.operators", `["slurm"]`)
	command(t, "ln", "-s", "rt-spool", s.path("bin", "rt-job"))
	script, err := os.ReadFile("../contrib/slurm/rt-mail")
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		"/usr/local/bin/rt-job": s.path("bin", "rt-job") + " --config " + s.path("mail.toml"), "/etc/rt/mail-program": s.path("mail-program"),
		"+ 60))": "+ 600))", "timeout -k 1 10": "timeout 240", // no test measures how soon it is
	} {
		script = bytes.ReplaceAll(script, []byte(from), []byte(to))
	}
	for name, text := range map[string]string{
		"rt-mail": string(script), "mail-program": s.path("mailer") + "\n", "mailer": "#!/bin/sh\nmail=$(mktemp " + s.path("out", "mail-XXXXXX") + ")\n(echo \"$*\"; cat) >$mail; mv $mail $mail.sent\n",
		"mail.toml": fmt.Sprintf("[spool]\ndir = %q\n[site]\nurl = %q\nmunge_socket = %s\n", s.path("no-spool"), siteURL(t, s), socket),
	} {
		if err := os.WriteFile(s.path(name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command(t, "sh", "-c", "echo MailProg="+s.path("rt-mail")+" >>"+s.path("lab", "etc", "slurm.conf"))
	c.root(t, "scontrol", "reconfigure")

	options := func(name, kinds string) []string {
		return []string{"-J", name, "-n1", "--mem=64", "--partition=" + c.partition, "--mail-user=anna", "--mail-type=" + kinds}
	}
	wanted := map[string]string{}
	for name, j := range map[string]struct{ script, outcome, subject string }{
		"good":   {"sleep 2", "finished", " Ended, "},
		"bad":    {"sleep 2; exit 3", "failed", " Failed, "},
		"hungry": {s.workload() + " --touch 100; s=$?; sleep 2; exit $s", "killed: memory", " Failed, "},
	} {
		id := c.submit(t, s, j.script, options(name, "END,FAIL")...)
		wanted[fmt.Sprintf("Job_id=%d Name=%s%s", id, name, j.subject)] = fmt.Sprintf("Job %d  %s: %s", id, name, j.outcome)
		c.wait(t, id)
	}
	array := c.submit(t, s, "sleep 2", append(options("several", "END"), "--array=1-3")...)
	wanted[fmt.Sprintf("Job_id=%d_* (%d) Name=several Ended, ", array, array)] = fmt.Sprintf("Array %d", array)
	c.wait(t, array)
	begun := c.submit(t, s, "sleep 2", options("begun", "BEGIN")...)
	wanted[fmt.Sprintf("Job_id=%d Name=begun Began, ", begun)] = ""
	c.wait(t, begun)
	drainAll(t, s)

	var sent []string
	until(t, "the mails", func() bool {
		sent, err = filepath.Glob(s.path("out", "mail-*.sent"))
		return err == nil && len(sent) >= len(wanted)
	})
	for _, file := range sent {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(text), "\n")
		t.Logf("%s\n%s", head, body)
		isKnown := false
		for subject, first := range wanted {
			if !strings.HasPrefix(head, "-s Slurm ") || !strings.Contains(head, subject) || !strings.HasSuffix(head, " anna") {
				continue
			}
			isKnown = true
			delete(wanted, subject)
			hasFigures := strings.HasPrefix(body, first) && strings.Contains(body, "Memory ")
			if isBegin := first == ""; isBegin != (body == "\n") || !isBegin && !hasFigures {
				t.Errorf("the mail %q has\n%s", head, body)
			}
		}
		if !isKnown {
			t.Errorf("there is a mail %q", head)
		}
	}
	c.healthy(t)
}
