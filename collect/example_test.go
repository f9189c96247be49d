package collect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/collect/proc"
)

// printer is a sink that prints the number of each snapshot.
type printer struct{}

func (printer) Put(s *rt.Snapshot) error {
	fmt.Printf("snapshot %d, %s: memory %t\n", s.Seq, s.Reason, s.Node.MemTotal.Valid())
	return nil
}

// A Recorder reads the node until the command that it accompanies has ended. The first
// and the last snapshot are taken even for a command that ends at once.
func ExampleRecorder() {
	fs := proc.NewFS("/proc", "/sys")
	memory := proc.NewMemory(fs)
	defer memory.Close()
	recorder, err := collect.New(collect.Options{
		Interval: 10 * time.Second,
		Node:     []collect.Source{memory},
		Sinks:    []collect.Sink{printer{}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, end := context.WithCancelCause(context.Background())
	end(collect.ErrCommandEnded)
	fmt.Println("ended:", recorder.Run(ctx))
	// Output:
	// snapshot 1, first: memory true
	// snapshot 2, last: memory true
	// ended: last
}
