package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
)

// table is a table of the page. The columns from Numbers on are right-aligned.
type table struct {
	Title   string
	Note    string
	Head    []string
	Numbers int
	Rows    [][]string
	Folded  bool // until the reader opens it
}

func tablesOf(job *Job) []table {
	all := []table{runsTable(job), stepsTable(job), gpusTable(job), killsTable(job), processesTable(job), energyTable(job), failedTable(job), missingTable(job)}
	return slices.DeleteFunc(all, func(t table) bool { return len(t.Rows) == 0 })
}

func runsTable(job *Job) table {
	t := table{Title: "Runs", Numbers: 2, Head: []string{"Run", "Outcome", "Elapsed", "CPU time", "CPU used", "Mean cores", "Peak memory", "Limit", "Memory used", "Read", "Written", "Readings", "Missed"}}
	names := runNames(job)
	for i := range job.Runs {
		s := job.Runs[i].Summary
		t.Rows = append(t.Rows, []string{
			names[i], job.outcomeOf(s), report.Clock(s.ElapsedSecs), s.CPU.Used.Text(), s.CPU.UsedMark.Sign(percent(s.CPU.UsedPct)), report.Number(s.CPU.MeanCores, "%.2f"),
			s.Memory.PeakMemory.Text(), report.Size(s.Memory.LimitBytes), s.Memory.PeakMark.Sign(percent(s.Memory.PeakPct)), s.IO.Mark.Of(report.Size(s.IO.ReadBytes)), s.IO.Mark.Of(report.Size(s.IO.WriteBytes)),
			fmt.Sprint(s.Record.Readings), fmt.Sprint(s.Record.Missed),
		})
	}
	return t
}

// outcomeOf describes how a run ended, which may be an earlier attempt of its job.
func (job *Job) outcomeOf(s *report.Summary) string {
	for i := range job.Runs {
		if r := job.Runs[i].Summary; r.Label == s.Label && r.Run.Attempt > s.Run.Attempt {
			return report.RequeuedText(s.Run.Outcome)
		}
	}
	return outcome(&s.Run.Ending, s.Abandoned)
}

// mostRows bounds the rows of a table of steps, tasks or processes.
const mostRows = 500

func stepsTable(job *Job) table {
	t := table{Title: "Steps and tasks", Numbers: 3, Head: []string{"Run", "Step", "Task", "CPU time", "Peak memory", "Anonymous", "Read", "Written", "Major faults", "OOM kills"}}
	names := runNames(job)
	for i := range job.Runs {
		for _, step := range job.Runs[i].Summary.Steps {
			add := func(task string, f *report.Figures) {
				t.Rows = append(t.Rows, []string{names[i], printable.Text(step.Step), task, f.Used.Text(), f.PeakMemory.Text(), report.Size(f.AnonBytes),
					report.Size(f.ReadBytes), report.Size(f.WriteBytes), report.Number(f.MajorFaults, "%d"), report.Number(f.OOMKills, "%d")})
			}
			add("", &step.Figures)
			for k := range step.Tasks {
				add(fmt.Sprint(step.Tasks[k].Task), &step.Tasks[k].Figures)
			}
		}
	}
	return t.bounded()
}

// bounded leaves out the rows after the first mostRows, and says so.
func (t table) bounded() table {
	if more := len(t.Rows) - mostRows; more > 0 {
		t.Rows, t.Note = t.Rows[:mostRows], fmt.Sprintf("%d more rows are in the output of rt-spool report --json.", more)
	}
	return t
}

func gpusTable(job *Job) table {
	t := table{Title: "GPUs", Numbers: 3, Head: []string{"Run", "GPU", "Model", "Busy", "Highest", "Peak memory", "Memory", "Mean power"}}
	names := runNames(job)
	for i := range job.Runs {
		for _, g := range job.Runs[i].Summary.GPUs {
			t.Rows = append(t.Rows, []string{names[i], printable.Text(cmp.Or(g.Host, g.UUID)), printable.Text(g.Name), g.BusyText(), percent(g.MaxBusyPct),
				g.VRAMText(), report.Size(g.VRAMTotalBytes), report.Number(g.MeanWatts, "%.0f W")})
		}
	}
	return t.bounded()
}

func killsTable(job *Job) table {
	t := table{Title: "Processes killed for memory", Numbers: 4, Head: []string{"Run", "Time", "Step", "Largest processes before", "Killed", "Limit", "Last reading before"}}
	names := runNames(job)
	for i := range job.Runs {
		for _, k := range job.Runs[i].Summary.OOM {
			var largest []string
			for _, p := range k.Biggest {
				largest = append(largest, fmt.Sprintf("%s[%d] %s", printable.Text(p.Comm), p.PID, report.Size(p.RSSBytes)))
			}
			t.Rows = append(t.Rows, []string{names[i], moment(k.Time, job.Zone), printable.Text(k.Step), strings.Join(largest, ", "), fmt.Sprint(k.Kills),
				report.Size(k.LimitBytes), report.Size(k.BeforeBytes)})
		}
	}
	return t
}

func processesTable(job *Job) table {
	t := table{Title: "Processes", Numbers: 3, Note: "Those with the most CPU time or memory.", Head: []string{"Run", "Command", "PID", "CPU time", "Largest resident memory"}}
	names := runNames(job)
	for i := range job.Runs {
		for _, p := range job.Runs[i].Summary.Processes.Top {
			t.Rows = append(t.Rows, []string{names[i], printable.Text(p.Comm), fmt.Sprint(p.PID), report.Clock(p.UsedSecs), report.Size(p.RSSBytes)})
		}
	}
	return t.bounded()
}

func energyTable(job *Job) table {
	t := table{Title: "Energy", Numbers: 2, Note: "Domains are of everything that ran on the node, and overlap.", Head: []string{"Run", "Domain", "Energy", "Mean power"}}
	names := runNames(job)
	for i := range job.Runs {
		if e := job.Runs[i].Summary.JobEnergy; e != nil && e.ActiveJoules.Valid() {
			t.Rows = append(t.Rows, []string{names[i], "share of the job, at least", report.Joules(e.ActiveJoules), report.Number(e.MeanWatts, "%.1f W")},
				[]string{names[i], "share of the job with all idle energy, at most", report.Joules(e.HighJoules), "-"})
		}
		for _, e := range job.Runs[i].Summary.Energy {
			t.Rows = append(t.Rows, []string{names[i], printable.Text(e.Domain), report.Joules(e.Joules), report.Number(e.Watts, "%.1f W")})
		}
	}
	return t.bounded()
}

// failedTable lists what needs an action: sensors that failed, and damaged records.
func failedTable(job *Job) table {
	t := table{Title: "Not ok", Numbers: 4, Head: []string{"Run", "What", "Status", "Why"}}
	names := runNames(job)
	for i := range job.Runs {
		s := job.Runs[i].Summary
		failed, _ := s.SensorsNotOK()
		for _, name := range failed {
			t.Rows = append(t.Rows, []string{names[i], "sensor " + printable.Text(name), s.Sensors[name].Status, printable.Text(s.Sensors[name].Detail)})
		}
		if s.Damage != "" {
			t.Rows = append(t.Rows, []string{names[i], "the rest of the run", "damaged", printable.Text(s.Damage)})
		}
	}
	return t.bounded()
}

// missingTable lists what was not measured, and why. Runs that lack the same are one row. The sensors
// that a node does not have are listed by name only.
func missingTable(job *Job) table {
	t := table{Title: "Not measured", Numbers: 3, Head: []string{"Run", "What", "Why"}, Folded: true}
	names := runNames(job)
	of := map[[2]string][]string{} // runs by what and why
	var order [][2]string
	for i := range job.Runs {
		s := job.Runs[i].Summary
		add := func(what, why string) {
			if why == "" {
				return
			}
			key := [2]string{printable.Text(what), printable.Text(why)}
			if of[key] == nil {
				order = append(order, key)
			}
			of[key] = append(of[key], names[i])
		}
		add("CPU time", s.CPU.Reason)
		add("memory", s.Memory.Reason)
		add("parts of the memory", s.Memory.PartsReason)
		add("OOM kills", s.Memory.OOMReason)
		add("disk I/O", s.IO.Reason)
		add("processes", s.Processes.Reason)
		add("network", s.Network.Reason)
		if s.JobEnergy != nil {
			add("energy of the job", s.JobEnergy.Reason)
		}
		if _, absent := s.SensorsNotOK(); len(absent) > 0 {
			add(strings.Join(absent, ", "), "the node has no such sensor")
		}
	}
	for _, key := range order {
		t.Rows = append(t.Rows, []string{firstOf(of[key], 4), key[0], key[1]})
	}
	return t.bounded()
}

func percent(o rt.Opt[float64]) string { return report.Number(o, "%.0f %%") }
