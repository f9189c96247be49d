package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// mailed returns the mail that contrib/slurm/rt-mail sends. rtJob is a program of sh in place of rt-job, and mailer is
// the name of the mail program. Other mails wait in the first slots.
func mailed(t *testing.T, others int, mailer, rtJob string, env []string, args ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../contrib/slurm/rt-mail")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sent, choice := filepath.Join(dir, "sent"), filepath.Join(dir, "mail-program")
	for from, to := range map[string]string{
		"/etc/rt/mail-program": choice, "/usr/local/bin/rt-job": filepath.Join(dir, "rt-job"), "+ 60))": "+ 2))", "sleep 5": "sleep 0.1", "timeout -k 1 10": "timeout -k 1 1",
		"/tmp/rt-mail-": filepath.Join(dir, "slots-"),
	} {
		if !bytes.Contains(text, []byte(from)) {
			t.Fatalf("the script does not have %q", from)
		}
		text = bytes.ReplaceAll(text, []byte(from), []byte(to))
	}
	if err := syscall.Mkfifo(sent, 0o600); err != nil { // who reads it waits for the mail
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"rt-mail": string(text), "mail-program": filepath.Join(dir, mailer) + "\n", "rt-job": "#!/bin/sh\n" + rtJob + "\n", mailer: "#!/bin/sh\n(echo \"$*\"; cat) >" + sent + "\n",
	} {
		syscall.ForkLock.RLock() // no child of another test has it open for writing when it is executed (ETXTBSY)
		err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755)
		syscall.ForkLock.RUnlock()
		if err != nil {
			t.Fatal(err)
		}
	}
	slots := filepath.Join(dir, fmt.Sprint("slots-", os.Getuid()))
	if err := os.Mkdir(slots, 0o700); err != nil {
		t.Fatal(err)
	}
	for n := range others {
		slot, err := os.Create(filepath.Join(slots, strconv.Itoa(n)))
		if err != nil {
			t.Fatal(err)
		}
		defer slot.Close()
		if err := syscall.Flock(int(slot.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(dir, "rt-mail"), args...)
	cmd.Env = env // slurmctld passes no PATH
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	mail, err := os.ReadFile(sent)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	return string(mail)
}

// The mail about the end of a job has what the job used. It goes out whatever rt-job does, and other mails are as they
// were.
func TestRTMail(t *testing.T) {
	t.Parallel()
	const subject = "Slurm Job_id=12 Name=$(x) Ended, Run time 00:01:00, COMPLETED, ExitCode 0"
	const good, none = `echo "Job $*  relax: finished"`, "rt-job 12 shows what the job used. Its record arrives some minutes after its end.\n"
	for _, tt := range []struct {
		name, mailer, rtJob, subject, kind, want string
	}{
		{"ended", "mail", good, subject, "Ended", "Job 12  relax: finished\n"},
		{"without variables", "mail", good, subject, "", "Job 12  relax: finished\n"},
		{"sendmail", "sendmail", good, subject, "Ended", "Job 12  relax: finished\n"},
		{"a task of an array", "mail", good, "Slurm Array Task Job_id=12_3 (15) Name=x Failed, Run time 00:01:00, FAILED, ExitCode 1", "Failed", "Job 12_3  relax: finished\n"},
		{"an array", "mail", good, "Slurm Array Summary Job_id=12_* (12) Name=x Ended, COMPLETED, ExitCode [0-0]", "Ended", "Job 12  relax: finished\n"},
		{"began", "mail", good, "Slurm Job_id=12 Name=x Began, Queued time 00:00:01", "Began", "\n"},
		{"no job", "mail", good, "Slurm Job_id=--html Name=x Ended, Run time", "Ended", "\n"},
		{"not there", "mail", "echo no such job >&2; exit 1", subject, "Ended", none},
		{"still running", "mail", "echo 'Job 12  relax: running'", subject, "Ended", none},
		{"hangs", "mail", "exec sleep 3600", subject, "Ended", none},
		{"two jobs", "mail", `echo "Job $*  relax: finished"; echo; echo "Job $*  of others: finished"`, subject, "Ended", none},
		{"no program", "mail", "exec /no/program", subject, "Ended", none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := "-s " + tt.subject + " -- anna\n" + tt.want
			if tt.mailer == "sendmail" {
				want = "-- anna\nTo: anna\nSubject: " + tt.subject + "\nContent-Type: text/plain; charset=utf-8\n\n" + tt.want
			}
			if got := mailed(t, 0, tt.mailer, tt.rtJob, []string{"SLURM_JOB_MAIL_TYPE=" + tt.kind}, "-s", tt.subject, "anna"); got != want {
				t.Errorf("sent %q", got)
			}
		})
	}
	for others, want := range map[int]string{19: "Job 12  relax: finished\n", 20: none} {
		if got := mailed(t, others, "mail", good, nil, "-s", subject, "anna"); !strings.HasSuffix(got, " anna\n"+want) {
			t.Errorf("with %d other mails that wait: %q", others, got)
		}
	}
	if got := mailed(t, 0, "mail", good, nil, "anna"); got != "anna\n" {
		t.Errorf("of another caller: %q", got)
	}
	if got := mailed(t, 0, "mail", good, []string{"SLURM_JOB_USER=bert"}, "-s", subject, "anna"); !strings.HasSuffix(got, "\nJob -u bert 12  relax: finished\n") {
		t.Errorf("of a user: %q", got)
	}
	if got := mailed(t, 0, "sendmail", good, nil, "-s", "x", "anna\nBcc: all"); !strings.HasPrefix(got, "-- annaBcc: all\nTo: annaBcc: all\nSubject: x\n") {
		t.Errorf("the address makes a header: %q", got)
	}
	if got := mailed(t, 0, "sendmail", good, nil, "-s", "x\nBcc: all, Job_id=12 Ended, y", "anna"); strings.Contains(got, "\nBcc") {
		t.Errorf("the subject makes a header: %q", got)
	}
}
