package lake

import (
	"reflect"
	"time"

	"github.com/resource-tracker/rt"
)

// sample is a row of samples: what all rows of a run have in common, and the current snapshot. The columns point into it.
type sample struct {
	cluster, name, step, node string
	job                       rt.Opt[uint64]
	attempt                   uint64
	started, time             time.Time
	seq, boot                 int64
	reason, phase             string
	ticks                     [8]rt.Opt[uint64]
	rt.Snapshot
}

func (s *sample) setRun(r *rt.Run) {
	*s = sample{cluster: r.Cluster, name: r.FileStem(), step: r.Step, node: r.Node, job: r.JobID, attempt: r.Attempt, started: r.Start}
}

func (s *sample) setSnapshot(of *rt.Snapshot) {
	s.Snapshot = *of
	s.seq, s.boot, s.time = of.Seq, of.Boot/1000, time.UnixMicro(of.Wall/1000)
	s.reason, s.phase = of.Reason.String(), of.Job.Phase.String()
	s.ticks = [8]rt.Opt[uint64]{}
	if t, ok := of.Node.CPU.Get(); ok {
		for i, v := range [...]uint64{t.User, t.Nice, t.System, t.Idle, t.IOWait, t.IRQ, t.SoftIRQ, t.Steal} {
			s.ticks[i].Set(v)
		}
	}
}

// columns returns the columns of samples. They are made from the tables of figures of package rt, so that a new figure is
// a new column. The counters of single processors are not in the lake.
func (s *sample) columns() *columns {
	list := []column{
		value("cluster", "", &s.cluster), value("run_name", "the key of the run within its cluster, as in runs", &s.name),
		value("job_id", "", &s.job), value("step", "null: the whole job", &s.step), value("node_name", "", &s.node),
		value("attempt", "", &s.attempt), value("started", "when the run began", &s.started),
		value("seq", "the number of the reading", &s.seq), value("time", "of the reading", &s.time),
		value("boot_us", "time since the node started", &s.boot),
		value("reason", "why it was read", &s.reason), value("job_phase", "", &s.phase),
	}
	for i := range list {
		switch list[i].name {
		case "seq", "time", "boot_us":
			list[i].isCounter = true
		}
	}
	for i, name := range [...]string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
		c := value("node_cpu_"+name+"_ticks", kindDocs[rt.Counter], &s.ticks[i])
		c.isCounter = true
		list = append(list, c)
	}
	list = append(list, figures("node", &s.Node, rt.NodeFigures[:]...)...)
	list = append(list, figures("job", &s.Job, rt.JobFigures[:]...)...)
	list = append(list, figures("tree", &s.Tree, rt.TreeFigures[:]...)...)
	list = append(list, figures("job_gpu", &s.GPU, rt.GPUUseFigures[:]...)...)
	list = append(list, figures("node", &s.Node, rt.NodeGPUUsage)...)
	list = append(list, figures("job_gpu", &s.GPU, rt.GPUUseUsage)...)
	return &columns{list: append(list,
		value("nets", each, &s.Nets), value("disks", each, &s.Disks), value("mounts", each, &s.Mounts), value("gpus", each, &s.GPUs),
		value("fabrics", each, &s.Fabrics), value("remote_fs", each, &s.RemoteFS), value("steps", each, &s.Steps),
		value("processes", each, &s.Procs), value("gpu_processes", each, &s.GPUProcesses), value("energy", each, &s.Energy),
		value("perf", each, &s.Perf))}
}

// each documents a list.
const each = "a group for each"

// value is the column of what a pointer points to, a type of package rt or a basic one.
func value(name, doc string, at any) column {
	c, err := columnOf(name, doc, reflect.ValueOf(at).Elem())
	if err != nil {
		panic(err) // TestColumns
	}
	return c
}

var kindDocs = map[rt.Kind]string{
	rt.Gauge: "gauge", rt.Counter: "counter since the beginning", rt.Peak: "peak since the beginning", rt.Limit: "limit",
}

// unit is the unit of a figure in the lake: sizes that a spool file has in KiB are in bytes.
func unit(u rt.Unit) rt.Unit {
	if u == rt.KiB {
		return rt.Bytes
	}
	return u
}

// figures are the columns of the figures of a noun.
func figures[T, V any](noun string, of *T, list ...rt.Figure[T, V]) (all []column) {
	for _, f := range list {
		f.Unit = unit(f.Unit)
		c := value(f.Column(noun), kindDocs[f.Kind], f.Field(of))
		c.isCounter = f.Kind == rt.Counter
		all = append(all, c)
	}
	return all
}
