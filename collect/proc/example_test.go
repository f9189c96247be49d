package proc_test

import (
	"fmt"
	"os"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/proc"
)

// A source is read into a snapshot as often as necessary, then closed.
func ExampleTree() {
	tree := proc.NewTree(proc.NewFS("/proc", "/sys"), os.Getpid())
	defer tree.Close()
	var s rt.Snapshot
	if err := tree.Read(&s); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("CPU time:", s.Tree.CPUUserTicks.Valid(), "RSS:", s.Tree.RSS.Valid())
	// Output: CPU time: true RSS: true
}

// List reads each process once.
func ExampleList() {
	found := false
	err := proc.List(proc.NewFS("/proc", "/sys"), func(p *proc.Listed) {
		found = found || p.PID == os.Getpid()
	})
	fmt.Println(found, err)
	// Output: true <nil>
}
