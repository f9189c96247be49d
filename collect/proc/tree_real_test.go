package proc

import (
	"bufio"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/resource-tracker/rt"
)

// shell starts a shell that executes each line that it gets; each line prints one line. When
// the test ends, all processes of the shell end too.
func shell(t *testing.T) (run func(line string) string, pid int) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `while read -r line; do eval "$line"; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // it was killed
	})
	answers := bufio.NewReader(out)
	return func(line string) string {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(answer)
	}, cmd.Process.Pid
}

// The processes of a shell come and go.
func TestTreeOfNewProcesses(t *testing.T) {
	run, pid := shell(t)
	tree := NewTree(NewFS("/proc", "/sys"), pid)
	defer tree.Close()
	var list []string
	for round := range 90 {
		switch round % 3 {
		case 0:
			list = append(list, run("sleep 1000 >/dev/null & echo $!"))
		case 1: // a child and its child; it answers when its trap has the pid of its child
			list = append(list, run(`sh -c 'sleep 1000 >/dev/null & trap "kill $!" TERM; echo $$; wait' &`))
		case 2:
			run("kill " + list[0] + "; wait " + list[0] + "; echo")
			list = list[1:]
		}
		var s rt.Snapshot
		if err := tree.Read(&s); err != nil {
			t.Fatal(err)
		}
		for _, member := range list {
			n, err := strconv.Atoi(member)
			if err != nil {
				t.Fatal(err)
			}
			if !tree.Has(n) {
				t.Errorf("round %d: process %d is not in the tree", round, n)
			}
		}
		if s.Tree.RSS.Or(0) == 0 {
			t.Errorf("round %d: no memory", round)
		}
	}
	run("kill " + strings.Join(list, " ") + "; wait; echo")
}
