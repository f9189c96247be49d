package gempba_test

import (
	"fmt"
	"strings"

	"github.com/resource-tracker/rt/format/gempba"
)

func ExampleDecoder_All() {
	stream := `{"version":1,"ts":1717180000000,"elapsed_seconds":3,"workers":[{"worker_id":0,"process_cpu_pct":nan,"tasks_running":2}],"nodes":[]}` + "\n"
	for line, err := range gempba.NewDecoder(strings.NewReader(stream)).All() {
		if err != nil {
			fmt.Println(err)
			break
		}
		for _, w := range line.Workers {
			running, _ := w.TasksRunning.Get()
			fmt.Printf("worker %d runs %d tasks, CPU use known: %t\n", w.WorkerID, running, w.ProcessCPUPct.Valid())
		}
	}
	// Output: worker 0 runs 2 tasks, CPU use known: false
}

func ExampleAppendControl() {
	line := gempba.AppendControl(nil, gempba.Control{Kind: gempba.SetWorkerInterval, Value: 500})
	fmt.Print(string(line))
	// Output: {"kind":"set_worker_interval_ms","value":500}
}
