package proc

import (
	"bufio"
	"io"
	"os"
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

// The processes of a shell come and go. Between two complete searches only new pids are
// looked at, and the tree is the same as one that searches all processes each time.
func TestTreeOfNewProcesses(t *testing.T) {
	run, pid := shell(t)
	root := NewFS("/proc", "/sys")
	tree, full := NewTree(root, pid), NewTree(root, pid)
	defer tree.Close()
	defer full.Close()
	var list []string
	searches := 0
	for round := range 3 * searchEvery {
		switch round % 3 {
		case 0:
			list = append(list, run("sleep 1000 >/dev/null & echo $!"))
		case 1: // a child and its child; it answers when its trap has the pid of its child
			list = append(list, run(`sh -c 'sleep 1000 >/dev/null & trap "kill $!" TERM; echo $$; wait' &`))
		case 2:
			run("kill " + list[0] + "; wait " + list[0] + "; echo")
			list = list[1:]
		}
		var s, want rt.Snapshot
		if err := tree.Read(&s); err != nil {
			t.Fatal(err)
		}
		if tree.recent.until == searchEvery {
			searches++
		}
		full.recent.until = 0
		if err := full.Read(&want); err != nil {
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
		for _, member := range tree.PIDs(nil) {
			if !full.Has(member) && exists(member) {
				t.Errorf("round %d: process %d is in the tree, but a complete search does not find it", round, member)
			}
		}
		if s.Tree.RSS.Or(0) == 0 {
			t.Errorf("round %d: no memory", round)
		}
	}
	run("kill " + strings.Join(list, " ") + "; wait; echo")
	if searches == 3*searchEvery {
		t.Error("each reading was a complete search")
	}
}

func exists(pid int) bool {
	_, err := os.Stat("/proc/" + strconv.Itoa(pid))
	return err == nil
}
