package gempba_test

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt/format/gempba"
)

func ExampleDecoder_Next() {
	stream := `{"version":1,"ts":1717180000000,"elapsed_seconds":3,"workers":[{"worker_id":0,"process_cpu_pct":nan,"tasks_running":2}],"nodes":[]}` + "\n"
	line, err := gempba.NewDecoder(strings.NewReader(stream)).Next()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, w := range line.Workers {
		running, _ := w.TasksRunning.Get()
		fmt.Printf("worker %d runs %d tasks, CPU use known: %t\n", w.WorkerID, running, w.ProcessCPUPct.Valid())
	}
	// Output: worker 0 runs 2 tasks, CPU use known: false
}
