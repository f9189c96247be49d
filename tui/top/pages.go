package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// pages are the views of a run, by number.
var pages = []struct {
	title string
	make  func(d *Detail, b brush) page
}{
	{"job", overview},
	{"steps", stepsPage},
	{"processes", processesPage},
	{"cores", coresPage},
	{"memory", memoryPage},
	{"GPUs", gpusPage},
	{"I/O", ioPage},
	{"pressure", pressurePage},
	{"energy", energyPage},
}

// page returns a page of the run. As long as nothing was read it has no rows.
func (d *Detail) page(i int, b brush) page {
	if d.Cur != nil {
		return pages[i].make(d, b)
	}
	unread := *d
	unread.Cur = &rt.Snapshot{}
	p := pages[i].make(&unread, b)
	p.head, p.rows = nil, nil
	if i == pageJob {
		p.head = []string{"nothing has been read yet"}
	}
	return p
}

// Pages that keys select.
const (
	pageJob = iota
	pageSteps
	pageProcesses
)

func jobsPage(f *Frame, b brush) page {
	p := page{
		name: "jobs", empty: "no runs",
		columns: []column{
			{"JOB", "job", 7, 0, true}, {"USER", "user", 6, 2, true}, {"NAME", "name", 8, 8, true}, {"NODE", "node", 4, 7, true},
			{"STATE", "state", 7, 0, true}, {"ELAPSED", "elapsed_secs", 8, 3, false}, {"CORES", "cores", 5, 0, false},
			{"OF", "alloc_cpus", 2, 0, false}, {"MEAN%", "cpu_mean_pct", 5, 5, false}, {"MEM", "memory_bytes", 5, 0, false},
			{"LIMIT", "memory_limit_bytes", 5, 0, false}, {"MEM%", "memory_pct", 5, 5, false}, {"READ/s", "read_bytes_per_sec", 6, 4, false},
			{"WRIT/s", "write_bytes_per_sec", 6, 4, false}, {"PROCS", "processes", 5, 9, false}, {"CPU", "", 0, 2, true},
		},
	}
	if f.Older > 0 {
		p.empty = fmt.Sprintf("no runs of the last day; a shows the %d that are older", f.Older)
	}
	if f.Denied > 0 {
		p.head = append(p.head, fmt.Sprintf("left out: %d that this user may not read", f.Denied))
	}
	if len(f.Problems)+f.Denied > 0 {
		p.empty = "no runs that can be read"
	}
	for i, err := range f.Problems {
		if i == 2 && len(f.Problems) > 3 {
			p.head = append(p.head, fmt.Sprintf("and %d more files that cannot be read: rt-spool verify lists them", len(f.Problems)-i))
			break
		}
		p.head = append(p.head, "cannot be read: "+strings.ReplaceAll(err.Error(), f.Where+"/", ""))
	}
	for i := range f.Jobs {
		p.rows = append(p.rows, jobRow(&f.Jobs[i], f.Time, b))
	}
	return p
}

func jobRow(j *Watched, now time.Time, b brush) row {
	alloc := rt.Scaled(j.AllocCPUs, 1)
	isRunning := j.State == rt.StateRunning
	memory := j.Memory
	if !isRunning { // the use at the last reading says little about a job that has ended
		memory = cmp.Or(j.Peak, j.Memory)
	}
	used := share(rt.Scaled(memory, 1), rt.Scaled(j.Limit, 1))
	cells := []cell{
		word(j.label()), word(j.User), word(j.Meta.JobName), word(j.Node), {text: j.state(), value: j.state()},
		number(rt.Some(j.elapsed(now).Seconds()), span), number(j.Cores, cores), name(j.AllocCPUs), number(share(j.MeanCores, alloc), percent),
		bytesOf(memory), limitCell(&j.Figures), number(used, percent), number(j.ReadRate, size), number(j.WriteRate, size), count(j.Processes),
		{draw: func(n int) string { return b.spark(j.cores, alloc.Or(0), n) }},
	}
	cells[9].text = atMost(j.IsAtMost && memory == j.Memory) + cells[9].text
	for _, i := range []int{6, 12, 13} { // figures of the last interval
		if !isRunning {
			cells[i] = cell{text: "-"}
		}
	}
	return row{id: j.Path, cells: cells, alarm: isRunning && used.Or(0) >= nearLimit}
}

// nearLimit is the percentage of its limit from which a job's memory is marked.
const nearLimit = 90

func limitCell(f *Figures) cell {
	if f.Unlimited {
		return cell{text: "none"}
	}
	return bytesOf(f.Limit)
}

// stepsPage shows the steps and tasks, also those that have ended.
func stepsPage(d *Detail, _ brush) page {
	p := page{
		name: "steps", empty: "no steps were read",
		columns: []column{
			{"STEP", "step", 8, 0, true}, {"TASK", "task", 4, 0, false}, {"STATE", "state", 7, 0, true}, {"CORES", "cores", 6, 0, false},
			{"CPU TIME", "cpu_secs", 8, 0, false}, {"MEM", "memory_bytes", 5, 0, false}, {"PEAK", "memory_peak_bytes", 5, 0, false},
			{"ANON", "anon_bytes", 5, 2, false}, {"PROCS", "processes", 5, 3, false}, {"READ/s", "read_bytes_per_sec", 6, 1, false},
			{"WRIT/s", "write_bytes_per_sec", 6, 1, false}, {"KILLS", "oom_kills", 5, 4, false},
		},
	}
	for i := range d.Steps {
		s := &d.Steps[i]
		before, secs := s.before, d.secs()
		state, task := "running", word("-")
		if s.Ended {
			state = "ended"
		}
		if s.Task.Valid() {
			task = name(s.Task)
		}
		p.rows = append(p.rows, row{id: s.Step + "/" + task.text, cells: []cell{
			word(s.Step), task, word(state), number(rt.Scaled(perSecond(before.CPUUsage, s.CPUUsage, secs), 1e-6), cores),
			number(rt.Scaled(s.CPUUsage, 1e-6), cpuTime), bytesOf(s.MemCurrent), bytesOf(s.MemPeak), bytesOf(s.Anon), count(s.Pids),
			number(perSecond(before.IOReadBytes, s.IOReadBytes, secs), size), number(perSecond(before.IOWriteBytes, s.IOWriteBytes, secs), size),
			count(s.EventsOOMKill),
		}})
	}
	return p
}

// processesPage shows the processes that used most.
func processesPage(d *Detail, _ brush) page {
	p := page{
		name: "processes_most", empty: "no processes were read",
		columns: []column{
			{"PID", "pid", 7, 0, false}, {"COMMAND", "comm", 15, 0, true}, {"STEP", "step", 5, 2, true}, {"TASK", "task", 4, 2, false},
			{"CPU%", "cpu_pct", 6, 0, false}, {"CPU TIME", "cpu_secs", 8, 0, false}, {"RSS", "rss_bytes", 5, 0, false},
			{"PSS", "pss_bytes", 5, 3, false}, {"THR", "threads", 4, 3, false}, {"READ/s", "read_bytes_per_sec", 6, 1, false},
			{"WRIT/s", "write_bytes_per_sec", 6, 1, false},
		},
	}
	for i := range d.Cur.Procs {
		q := &d.Cur.Procs[i]
		before := find(d.before().Procs, func(b *rt.ProcessReading) bool { return b.PID == q.PID && b.Start == q.Start })
		secs, ticks := d.secs(), ticksOf(q)
		p.rows = append(p.rows, row{id: fmt.Sprint(q.PID, "/", q.Start), cells: []cell{
			name(rt.Some(q.PID)), word(q.Comm), word(q.Step), name(q.Task),
			number(rt.Scaled(perSecond(ticksOf(before), ticks, secs), 100/float64(rt.TicksPerSecond)), percent),
			number(rt.Scaled(ticks, 1/float64(rt.TicksPerSecond)), cpuTime), bytesOf(q.RSS), bytesOf(q.PSS), count(q.Threads),
			number(perSecond(before.ReadBytes, q.ReadBytes, secs), size), number(perSecond(before.WriteBytes, q.WriteBytes, secs), size),
		}})
	}
	return p
}

func ticksOf(q *rt.ProcessReading) rt.Opt[uint64] {
	user, system, ok := rt.Both(q.UserTicks, q.SystemTicks)
	if !ok {
		return rt.None[uint64]()
	}
	return rt.Some(user + system)
}

// headline is the line above each page of a run.
func headline(d *Detail) string {
	j := &d.Job
	words := []string{"Job " + j.label()}
	if !j.JobID.Valid() {
		words[0] = "Run " + j.label()
	}
	for _, w := range []string{j.Meta.JobName, j.User, j.Node} {
		if w != "" {
			words = append(words, w)
		}
	}
	state := j.state()
	if code, ok := j.ExitCode.Get(); ok && j.State != rt.StateRunning {
		state += fmt.Sprintf(" (%d:%d)", code, j.ExitSignal.Or(0))
	}
	return report.Plain(strings.Join(append(words, state, span(j.ElapsedSec)), "  "))
}
