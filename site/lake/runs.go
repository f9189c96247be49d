package lake

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// runHead has the columns of runs before the report's columns, and repeats most of them. Engines
// use columns outside groups to skip files and parts of files.
type runHead struct {
	ID        string         `json:"id"`       // of the registration
	RunName   string         `json:"run_name"` // of the run, as in samples
	JobID     rt.Opt[uint64] `json:"job_id"`
	Step      string         `json:"step"`
	Node      string         `json:"node_name"`
	Attempt   uint64         `json:"attempt"`
	JobName   string         `json:"job_name"`
	User      string         `json:"user_name"`
	Account   string         `json:"account"`
	Partition string         `json:"partition_name"`
	State     string         `json:"state"`
	Outcome   string         `json:"outcome"`
	ExitCode  rt.Opt[int64]  `json:"exit_code"`
	Started   time.Time      `json:"started"`
	Ended     time.Time      `json:"ended"`
	Cores     rt.Opt[uint64] `json:"alloc_cpus"`
	Memory    rt.Opt[uint64] `json:"alloc_mem_bytes"`
	Samples   uint64         `json:"samples"` // rows in samples
}

func headOf(id string, run *rt.Run, samples uint64) runHead {
	return runHead{
		ID: id, RunName: run.FileStem(), JobID: run.JobID, Step: run.Step, Node: run.Node, Attempt: run.Attempt,
		JobName: run.Meta.JobName, User: run.User, Account: run.Account, Partition: run.Partition,
		State: string(run.State), Outcome: string(run.Outcome), ExitCode: run.ExitCode,
		Started: run.Start, Ended: run.End, Cores: run.AllocCPUs, Memory: run.AllocMem, Samples: samples,
	}
}

// runEncoder converts runs to the values of the columns of runs: the columns of runHead, and the
// report of a run with its JSON names.
type runEncoder struct {
	schema       *parquet.Schema
	about        map[string]Description
	head, report *shape
	columns      [][]parquet.Value
}

// newRunEncoder makes an encoder for reports of a type, which is a struct.
func newRunEncoder(report reflect.Type) (*runEncoder, error) {
	head, err := shapeOf(reflect.TypeFor[runHead]())
	if err != nil {
		return nil, err
	}
	e := &runEncoder{head: head, about: map[string]Description{}}
	e.report, err = shapeOf(report)
	if err != nil {
		return nil, err
	}
	group := parquet.Group{}
	for _, s := range []*shape{e.report, e.head} {
		for _, f := range s.fields {
			if group[f.name] != nil {
				return nil, fmt.Errorf("%w: there are two columns %s", errType, f.name)
			}
			group[f.name] = f.parquet()
		}
		e.describe("", s)
	}
	e.schema = parquet.NewSchema("run", group)
	e.columns = make([][]parquet.Value, len(e.schema.Columns()))
	e.report.bind(e.schema)
	e.head.bind(e.schema)
	return e, nil
}

// endings are the ends of names that are units.
var endings = []string{"secs", "bytes", "pct", "watts", "joules", "celsius", "mhz"}

// describe lists the units of the columns below a shape.
func (e *runEncoder) describe(prefix string, s *shape) {
	if s.of != nil {
		e.describe(prefix, s.of)
	}
	for _, f := range s.fields {
		name := strings.TrimPrefix(prefix+"."+f.name, ".")
		ending := name[strings.LastIndexAny(name, "_.")+1:]
		if slices.Contains(endings, ending) {
			e.about[name] = Description{Unit: ending}
		}
		e.describe(name, f.shape)
	}
}

// encode returns the values of a run. They are valid until the next call.
func (e *runEncoder) encode(head runHead, report any) [][]parquet.Value {
	for i := range e.columns {
		e.columns[i] = e.columns[i][:0]
	}
	e.report.add(e.columns, reflect.Indirect(reflect.ValueOf(report)), place{})
	e.head.add(e.columns, reflect.ValueOf(head), place{})
	return e.columns
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
