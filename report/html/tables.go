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

// runTable is a table with rows of each run. Their first column is the name of the run.
type runTable struct {
	table
	rows func(*Page, *report.Summary) [][]string
}

var runTables = []runTable{
	{table{Title: "Runs", Numbers: 2, Head: []string{"Run", "Outcome", "Elapsed", "CPU time", "CPU used", "Mean cores", "Peak memory", "Limit", "Memory used", "Read", "Written", "Readings", "Missed"}}, runRow},
	{table{Title: "Steps and tasks", Numbers: 3, Head: []string{"Run", "Step", "Task", "CPU time", "Peak memory", "Anonymous", "Read", "Written", "Major faults", "OOM kills"}}, stepRows},
	{table{Title: "GPUs", Numbers: 3, Head: []string{"Run", "GPU", "Model", "Busy", "Highest", "Peak memory", "Memory", "Mean power"}}, gpuRows},
	{table{Title: "Processes killed for memory", Numbers: 4, Head: []string{"Run", "Time", "Step", "Largest processes before", "Killed", "Limit", "Last reading before"}}, killRows},
	{table{Title: "Processes", Numbers: 3, Note: "Those with the most CPU time or memory.", Head: []string{"Run", "Command", "PID", "CPU time", "Largest resident memory"}}, processRows},
	{table{Title: "Energy", Numbers: 2, Note: "Domains are of everything that ran on the node, and overlap.", Head: []string{"Run", "Domain", "Energy", "Mean power"}}, energyRows},
	{table{Title: "Not ok", Numbers: 4, Head: []string{"Run", "What", "Status", "Why"}}, failedRows},
}

func tablesOf(p *Page) []table {
	names := runNames(p)
	var all []table
	for _, t := range runTables {
		for i := range p.Runs {
			for _, row := range t.rows(p, p.Runs[i].Summary) {
				t.Rows = append(t.Rows, append([]string{names[i]}, row...))
			}
		}
		all = append(all, t.bounded())
	}
	all = append(all, missingTable(p, names))
	return slices.DeleteFunc(all, func(t table) bool { return len(t.Rows) == 0 })
}

func runRow(p *Page, s *report.Summary) [][]string {
	return [][]string{{
		p.outcomeOf(s), report.Clock(s.ElapsedSecs), s.CPU.Used.Text(), s.CPU.UsedMark.Of(percent(s.CPU.UsedPct)), report.Number(s.CPU.MeanCores, "%.2f"),
		s.Memory.PeakMemory.Text(), report.Size(s.Memory.LimitBytes), s.Memory.PeakMark.Of(percent(s.Memory.PeakPct)), s.IO.Mark.Of(report.Size(s.IO.ReadBytes)), s.IO.Mark.Of(report.Size(s.IO.WriteBytes)),
		fmt.Sprint(s.Record.Readings), fmt.Sprint(s.Record.Missed),
	}}
}

// outcomeOf describes how a run ended, which may be an earlier attempt of its job.
func (p *Page) outcomeOf(s *report.Summary) string {
	for i := range p.Runs {
		if r := p.Runs[i].Summary; r.Label == s.Label && r.Run.Attempt > s.Run.Attempt {
			return report.RequeuedText(s.Run.Outcome)
		}
	}
	return outcome(&s.Run.Ending, s.Abandoned)
}

// mostRows bounds the rows of a table.
const mostRows = 500

func stepRows(_ *Page, s *report.Summary) (rows [][]string) {
	for i := range s.Steps {
		step := &s.Steps[i]
		add := func(task string, f *report.Figures) {
			rows = append(rows, []string{printable.Text(step.Step), task, f.Used.Text(), f.PeakMemory.Text(), report.Size(f.AnonBytes),
				report.Size(f.ReadBytes), report.Size(f.WriteBytes), report.Number(f.MajorFaults, "%d"), report.Number(f.OOMKills, "%d")})
		}
		add("", &step.Figures)
		for k := range step.Tasks {
			add(fmt.Sprint(step.Tasks[k].Task), &step.Tasks[k].Figures)
		}
	}
	return rows
}

// bounded leaves out the rows after the first mostRows, and says so.
func (t table) bounded() table {
	if more := len(t.Rows) - mostRows; more > 0 {
		t.Rows, t.Note = t.Rows[:mostRows], fmt.Sprintf("%d more rows are in the output of rt-spool report --json.", more)
	}
	return t
}

func gpuRows(_ *Page, s *report.Summary) (rows [][]string) {
	for i := range s.GPUs {
		g := &s.GPUs[i]
		rows = append(rows, []string{printable.Text(cmp.Or(g.Host, g.UUID)), printable.Text(g.Name), g.BusyText(), percent(g.MaxBusyPct),
			g.VRAMText(), report.Size(g.VRAMTotalBytes), report.Number(g.MeanWatts, "%.0f W")})
	}
	return rows
}

func killRows(p *Page, s *report.Summary) (rows [][]string) {
	for _, k := range s.OOM {
		var largest []string
		for _, p := range k.Biggest {
			largest = append(largest, fmt.Sprintf("%s[%d] %s", printable.Text(p.Comm), p.PID, report.Size(p.RSSBytes)))
		}
		rows = append(rows, []string{moment(k.Time, p.Zone), printable.Text(k.Step), strings.Join(largest, ", "), fmt.Sprint(k.Kills),
			report.Size(k.LimitBytes), report.Size(k.BeforeBytes)})
	}
	return rows
}

func processRows(_ *Page, s *report.Summary) (rows [][]string) {
	for _, p := range s.Processes.Top {
		rows = append(rows, []string{printable.Text(p.Comm), fmt.Sprint(p.PID), report.Clock(p.UsedSecs), report.Size(p.RSSBytes)})
	}
	return rows
}

func energyRows(_ *Page, s *report.Summary) (rows [][]string) {
	if e := s.JobEnergy; e != nil && e.ActiveJoules.Valid() {
		rows = append(rows, []string{"share of the job, at least", report.Joules(e.ActiveJoules), report.Number(e.MeanWatts, "%.1f W")},
			[]string{"share of the job with all idle energy, at most", report.Joules(e.HighJoules), "-"})
	}
	for _, e := range s.Energy {
		rows = append(rows, []string{printable.Text(e.Domain), report.Joules(e.Joules), report.Number(e.Watts, "%.1f W")})
	}
	return rows
}

// failedRows list what needs an action: sensors that failed, and damaged records.
func failedRows(_ *Page, s *report.Summary) (rows [][]string) {
	failed, _ := s.SensorsNotOK()
	for _, name := range failed {
		rows = append(rows, []string{"sensor " + printable.Text(name), s.Sensors[name].Status, printable.Text(s.Sensors[name].Detail)})
	}
	if s.Damage != "" {
		rows = append(rows, []string{"the rest of the run", "damaged", printable.Text(s.Damage)})
	}
	return rows
}

// missingTable lists what was not measured, and why. Runs that lack the same are one row. The sensors
// that a node does not have are listed by name only.
func missingTable(p *Page, names []string) table {
	t := table{Title: "Not measured", Numbers: 3, Head: []string{"Run", "What", "Why"}, Folded: true}
	of := map[[2]string][]string{} // runs by what and why
	var order [][2]string
	for i := range p.Runs {
		s := p.Runs[i].Summary
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
		t.Rows = append(t.Rows, []string{report.FirstOf(of[key], 4), key[0], key[1]})
	}
	return t.bounded()
}

func percent(o rt.Opt[float64]) string { return report.Number(o, "%.0f %%") }
