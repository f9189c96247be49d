package lake

import (
	"errors"
	"reflect"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// runHead has the columns of runs before the report's columns, and repeats most of them. Engines
// use columns outside groups to skip files and parts of files.
type runHead struct {
	ID        string          `json:"id" doc:"of the registration at the site"`
	Cluster   string          `json:"cluster"`
	RunName   string          `json:"run_name" doc:"the key of the run within its cluster, as in samples"`
	JobID     rt.Opt[uint64]  `json:"job_id"`
	Step      string          `json:"step" doc:"null: the whole job"`
	Node      string          `json:"node_name"`
	Attempt   uint64          `json:"attempt"`
	JobName   string          `json:"job_name"`
	User      string          `json:"user_name"`
	Account   string          `json:"account"`
	Partition string          `json:"partition_name"`
	State     string          `json:"state"`
	Outcome   string          `json:"outcome"`
	ExitCode  rt.Opt[int64]   `json:"exit_code"`
	Started   time.Time       `json:"started"`
	Ended     time.Time       `json:"ended"`
	Cores     rt.Opt[uint64]  `json:"alloc_cpus"`
	Memory    rt.Opt[uint64]  `json:"alloc_mem_bytes"`
	Waste     rt.Opt[float64] `json:"waste_core_secs" doc:"what was reserved and not used of cores, GPUs and memory, as core-seconds"`
	Samples   uint64          `json:"samples" doc:"the number of rows in samples"`
}

// run is a row of runs: its head, and the report with its JSON names. The columns point into it.
type run struct {
	head   runHead
	report report.Summary
}

func (r *run) set(id string, d *DecodedRun, samples int) {
	of := &d.Run
	r.report = *d.Report
	r.head = runHead{
		ID: id, Cluster: of.Cluster, RunName: of.FileStem(), JobID: of.JobID, Step: of.Step, Node: of.Node, Attempt: of.Attempt,
		JobName: of.Meta.JobName, User: of.User, Account: of.Account, Partition: of.Partition,
		State: string(of.State), Outcome: string(of.Outcome), ExitCode: of.ExitCode,
		Started: of.Start, Ended: of.End, Cores: of.AllocCPUs, Memory: of.AllocMem, Waste: d.Waste, Samples: uint64(samples),
	}
}

// columns returns the columns of runs. It fails if the report has a field of a type that has no column.
func (r *run) columns() (*columns, error) {
	all := &columns{}
	return all, errors.Join(all.appendFields(reflect.ValueOf(&r.head).Elem()), all.appendFields(reflect.ValueOf(&r.report).Elem()))
}
