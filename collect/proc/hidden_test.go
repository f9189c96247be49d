package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/resource-tracker/rt"
)

// Where procfs hides the processes of other users, the number of the processes that are left is not the node's.
func TestHiddenProcesses(t *testing.T) {
	const allBut19, only19 = "000001fffff7ffff", "0000000000080000"
	inGroup, notInGroup := fmt.Sprintf("gid=%d", os.Getegid()), "gid=2147483646"
	for _, tt := range []struct {
		options, capabilities string
		isHidden              bool
	}{
		{"rw", allBut19, false},
		{"rw,hidepid=1", allBut19, false},
		{"rw,hidepid=noaccess", allBut19, false},
		{"rw," + notInGroup + ",hidepid=2", allBut19, true},
		{"rw," + notInGroup + ",hidepid=invisible", allBut19, true},
		{"rw," + inGroup + ",hidepid=invisible", allBut19, false},
		{"rw," + inGroup + ",hidepid=ptraceable", allBut19, true},
		{"rw," + notInGroup + ",hidepid=invisible", only19, false},
		{"rw,hidepid=4", allBut19, true},
		{"rw,hidepid=4", only19, false},
	} {
		root := filepath.Join(t.TempDir(), "proc")
		write(t, root+"/7/stat", "")
		write(t, root+"/8", "")
		write(t, root+"/self/mountinfo", "22 29 0:20 / "+root+" rw,nosuid - proc proc rw\n23 22 0:21 / "+root+" rw - proc proc "+tt.options+"\n24 29 0:22 / /other rw - proc proc rw,hidepid=2\n")
		write(t, root+"/self/status", "Name:\tx\nCapEff:\t"+tt.capabilities+"\nCapBnd:\t"+only19+"\n")
		source := NewProcesses(NewFS(root, t.TempDir()))
		var s rt.Snapshot
		err := source.Read(&s)
		if errors.Is(err, fs.ErrPermission) != tt.isHidden || s.Node.Processes.Valid() == tt.isHidden {
			t.Errorf("%s, capabilities %s: %v processes, %v", tt.options, tt.capabilities, s.Node.Processes, err)
		}
	}
}
