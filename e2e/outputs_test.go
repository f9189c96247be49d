//go:build e2e

package e2e

import (
	"database/sql"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// outputs are the outputs of the programs for one run.
type outputs struct {
	run    spooled
	text   string     // report
	report reportJSON // report --json
	csv    []rowShown // export --format csv
	jsonl  []rowShown // export --format jsonl
	view   []rowShown // the view sample
	events []event
}

// reportJSON is a part of the document of report --json.
type reportJSON struct {
	CPU struct {
		UsedSecs   *float64 `json:"used_secs"`
		UserSecs   *float64 `json:"user_secs"`
		SystemSecs *float64 `json:"system_secs"`
		UsedMark   string   `json:"used_mark"`
	} `json:"cpu"`
	Memory struct {
		PeakBytes int64 `json:"peak_bytes"`
	} `json:"memory"`
	IO struct {
		ReadBytes  int64  `json:"read_bytes"`
		WriteBytes int64  `json:"write_bytes"`
		Mark       string `json:"mark"`
	} `json:"io"`
	Steps []stepJSON `json:"steps"`
}

type stepJSON struct {
	Step       string   `json:"step"`
	UsedSecs   *float64 `json:"used_secs"`
	UserSecs   *float64 `json:"user_secs"`
	SystemSecs *float64 `json:"system_secs"`
	PeakBytes  int64    `json:"peak_bytes"`
}

// rowShown is one interval, without the figures that an output does not have.
type rowShown struct {
	user, system, processes, read, written string
	cores, secs                            float64
}

// event is an event of the ledger about the job.
type event struct{ name, status, detail string }

// readOutputs runs the programs for a run.
func readOutputs(t *testing.T, s *site, r spooled) *outputs {
	t.Helper()
	show := func(args ...string) string {
		out, status := s.rtSpool(t, append(args, r.path)...)
		if status != 0 {
			t.Fatalf("rt-spool %v ended with %d", args, status)
		}
		return out
	}
	o := &outputs{run: r, text: show("report")}
	var reports []reportJSON
	if err := json.Unmarshal([]byte(show("report", "--json")), &reports); err != nil || len(reports) != 1 {
		t.Fatalf("%d reports in JSON, %v", len(reports), err)
	}
	o.report = reports[0]
	rows, err := csv.NewReader(strings.NewReader(show("export", "--format", "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		o.csv = append(o.csv, rowShown{processes: row[1], user: row[2], system: row[3], cores: decimal(t, row[4]), read: row[11], written: row[12]})
	}
	for _, line := range lines(show("export", "--format", "jsonl")) {
		var sample struct {
			CPU struct {
				Cores     *float64     `json:"utilization_pct"`
				User      *json.Number `json:"utime_secs"`
				System    *json.Number `json:"stime_secs"`
				Processes *json.Number `json:"process_count"`
			} `json:"cpu"`
		}
		if err := json.Unmarshal([]byte(line), &sample); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		cpu := sample.CPU
		row := rowShown{processes: digits(cpu.Processes), user: millis(t, digits(cpu.User)), system: millis(t, digits(cpu.System)), cores: math.NaN()}
		if cpu.Cores != nil {
			row.cores = *cpu.Cores
		}
		o.jsonl = append(o.jsonl, row)
	}
	o.readFile(t)
	return o
}

// readFile reads the view sample and the ledger.
func (o *outputs) readFile(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+o.run.path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT iif(job_user_s IS NULL, '', printf('%.3f', job_user_s)), iif(job_system_s IS NULL, '', printf('%.3f', job_system_s)), ifnull(v.job_pids, ''),
		job_cores, (s.boot_us - lag(s.boot_us) OVER (ORDER BY s.seq)) / 1e6, ifnull(job_read_bytes_per_s, ''), ifnull(job_write_bytes_per_s, '')
		FROM sample AS v JOIN snapshot AS s ON s.seq = v.seq ORDER BY s.seq`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var row rowShown
		var cores, secs sql.NullFloat64
		if err := rows.Scan(&row.user, &row.system, &row.processes, &cores, &secs, &row.read, &row.written); err != nil {
			t.Fatal(err)
		}
		row.cores, row.secs = cores.Float64, secs.Float64
		if !cores.Valid {
			row.cores = math.NaN()
		}
		o.view = append(o.view, row)
	}
	if len(o.view) > 0 {
		o.view = o.view[1:] // no interval ends at the first reading
	}
	events, err := db.Query("SELECT name, status, detail FROM event WHERE kind = 'job'")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	for events.Next() {
		var e event
		if err := events.Scan(&e.name, &e.status, &e.detail); err != nil {
			t.Fatal(err)
		}
		o.events = append(o.events, e)
	}
}

// ledger returns the events with this name.
func (o *outputs) ledger(name string) string {
	var all []string
	for _, e := range o.events {
		if e.name == name {
			all = append(all, e.detail)
		}
	}
	return strings.Join(all, "; ")
}

// step returns the report's entry for a step; nil if there is none.
func (o *outputs) step(name string) *stepJSON {
	for i := range o.report.Steps {
		if s := &o.report.Steps[i]; s.Step == name {
			return s
		}
	}
	return nil
}

// isNoted reports whether the ledger and the report name a step that was not read at its end.
func (o *outputs) isNoted(step string) bool {
	return strings.Contains(o.ledger("tasks")+";", " step "+step+" was not read")
}

func (o *outputs) cpu() time.Duration {
	if o.report.CPU.UsedSecs == nil {
		return 0
	}
	return seconds(*o.report.CPU.UsedSecs)
}

func (o *outputs) String() string {
	var steps []string
	for _, s := range o.report.Steps {
		used := "-"
		if s.UsedSecs != nil {
			used = fmt.Sprint(*s.UsedSecs)
		}
		steps = append(steps, fmt.Sprintf("%s=%s/%d", s.Step, used, s.PeakBytes))
	}
	return fmt.Sprintf("job %d on %s: %d readings, CPU %v, %d bytes read, %d written, at least: %v, peak %d, steps %s; ledger: %s %s %s", o.run.JobID, o.run.Node,
		o.run.snapshots, o.cpu(), o.report.IO.ReadBytes, o.report.IO.WriteBytes, o.report.IO.Mark, o.report.Memory.PeakBytes, strings.Join(steps, " "),
		o.ledger("bytes"), o.ledger("tasks"), o.ledger("cpu"))
}

// agree compares the outputs with each other.
func (o *outputs) agree(t *testing.T) {
	t.Helper()
	o.agreeReport(t)
	o.agreeRows(t)
	o.agreeTotals(t)
	o.agreeSteps(t)
}

var (
	cpuLine   = regexp.MustCompile(`(?m)^CPU time +(at least )?([0-9.:]+)(?: s)? of `)
	cpuParts  = regexp.MustCompile(`(?m)^ +user ([0-9.:]+)(?: s)?, system ([0-9.:]+)(?: s)?$`)
	bytesLine = regexp.MustCompile(`(?m)^Disk I/O +read (at least )?([0-9.]+ [KMGT]?i?B), written (at least )?([0-9.]+ [KMGT]?i?B)`)
)

// agreeReport compares the report as text with its JSON.
func (o *outputs) agreeReport(t *testing.T) {
	t.Helper()
	c := &o.report.CPU
	if c.UsedSecs == nil || c.UserSecs == nil || c.SystemSecs == nil {
		t.Fatalf("the report has no CPU time:\n%s", o.text)
	}
	if micros(*c.UserSecs)+micros(*c.SystemSecs) != micros(*c.UsedSecs) {
		t.Errorf("user %v and system %v do not add up to %v", *c.UserSecs, *c.SystemSecs, *c.UsedSecs)
	}
	used, parts, bytes := cpuLine.FindStringSubmatch(o.text), cpuParts.FindStringSubmatch(o.text), bytesLine.FindStringSubmatch(o.text)
	if used == nil || parts == nil || bytes == nil {
		t.Fatalf("the report does not have the lines of CPU and bytes:\n%s", o.text)
	}
	for _, x := range []struct {
		text string
		json float64
	}{{used[2], *c.UsedSecs}, {parts[1], *c.UserSecs}, {parts[2], *c.SystemSecs}} {
		want := fmt.Sprintf("%.2f", x.json)
		if secs := int(x.json); secs >= 60 {
			want = fmt.Sprintf("%02d:%02d:%02d", secs/3600, secs/60%60, secs%60)
		}
		if x.text != want {
			t.Errorf("the report shows %s s, its JSON %v", x.text, x.json)
		}
	}
	if isBound, isNoted := used[1] != "", o.ledger("end") != ""; isBound != (c.UsedMark != "") || isNoted != isBound {
		t.Errorf("CPU time is a lower bound in the text: %v, in JSON: %q; the ledger has %q", isBound, c.UsedMark, o.ledger("end"))
	}
	for _, x := range []struct {
		atLeast, text string
		json          int64
	}{{bytes[1], bytes[2], o.report.IO.ReadBytes}, {bytes[3], bytes[4], o.report.IO.WriteBytes}} {
		if isBound := x.atLeast != ""; isBound != (o.report.IO.Mark != "") {
			t.Errorf("a lower bound in the text: %v, in JSON: %q", isBound, o.report.IO.Mark)
		}
		if shown := size(t, x.text); math.Abs(shown-float64(x.json)) > 0.006*float64(x.json) {
			t.Errorf("the report shows %s, its JSON %d", x.text, x.json)
		}
	}
	isMissed := o.ledger("end") != ""
	if isBound := strings.Contains(o.ledger("io"), "a lower bound") || isMissed; isBound != (o.report.IO.Mark != "") {
		t.Errorf("a lower bound in the report: %q; the ledger has %q", o.report.IO.Mark, o.ledger("io"))
	}
}

// agreeRows compares the intervals one by one.
func (o *outputs) agreeRows(t *testing.T) {
	t.Helper()
	if len(o.csv) == 0 || len(o.jsonl) != len(o.csv) || len(o.view) != len(o.csv) {
		t.Fatalf("%d rows in CSV, %d in JSON Lines, %d in the view", len(o.csv), len(o.jsonl), len(o.view))
	}
	near := func(a, b, by float64) bool { return math.IsNaN(a) == math.IsNaN(b) && !(math.Abs(a-b) > by) }
	for i, c := range o.csv {
		j, v := o.jsonl[i], o.view[i]
		isJSON := j.user == c.user && j.system == c.system && j.processes == c.processes && near(j.cores, c.cores, 0.0001)
		isView := v.user == c.user && v.system == c.system && v.processes == c.processes && near(v.cores, c.cores, 0.0051)
		isView = isView && v.read == perSecond(t, c.read, v.secs) && v.written == perSecond(t, c.written, v.secs)
		if !isJSON || !isView {
			t.Errorf("interval %d differs: CSV %+v, JSON Lines %+v, view %+v", i, c, j, v)
		}
	}
}

// agreeTotals adds up the rows and compares the sums with the report.
func (o *outputs) agreeTotals(t *testing.T) {
	t.Helper()
	sum := func(of func(rowShown) string) (total float64) {
		for _, row := range o.csv {
			if text := of(row); text != "" {
				total += decimal(t, text)
			}
		}
		return total
	}
	c, io := &o.report.CPU, &o.report.IO
	for _, x := range []struct {
		name        string
		sum, report int64
	}{
		{"user ms", int64(math.Round(1000 * sum(func(r rowShown) string { return r.user }))), micros(*c.UserSecs) / 1000},
		{"system ms", int64(math.Round(1000 * sum(func(r rowShown) string { return r.system }))), micros(*c.SystemSecs) / 1000},
		{"bytes read", int64(sum(func(r rowShown) string { return r.read })), io.ReadBytes},
		{"bytes written", int64(sum(func(r rowShown) string { return r.written })), io.WriteBytes},
	} {
		if x.sum != x.report {
			t.Errorf("%s: the rows add up to %d, the report has %d", x.name, x.sum, x.report)
		}
	}
}

// agreeSteps adds up the steps and compares the sum with the job: each is read at its end. Slurm's own process in the
// extern step is not the job's. That step is read after the job, and may have some more of this process.
func (o *outputs) agreeSteps(t *testing.T) {
	t.Helper()
	sum, extern, isWhole := 0.0, 0.0, true
	for _, s := range o.report.Steps {
		if s.UsedSecs == nil {
			isWhole = false
			continue
		}
		sum += *s.UsedSecs
		if s.Step == "extern" {
			extern = *s.UsedSecs
		}
		if s.UserSecs != nil && s.SystemSecs != nil && micros(*s.UserSecs)+micros(*s.SystemSecs) != micros(*s.UsedSecs) {
			t.Errorf("step %s: user %v and system %v do not add up to %v", s.Step, *s.UserSecs, *s.SystemSecs, *s.UsedSecs)
		}
		if s.PeakBytes > o.report.Memory.PeakBytes {
			t.Errorf("step %s: peak %d, that of the job is %d", s.Step, s.PeakBytes, o.report.Memory.PeakBytes)
		}
	}
	slack := truth{cpu: o.cpu()}.slack()
	less := o.cpu() - seconds(sum)
	isNoted := strings.Contains(o.ledger("tasks"), "was not read") || strings.Contains(o.ledger("cpu"), "was not read at its end")
	isShort := less > slack && isWhole && !isNoted
	isMore := less+seconds(extern) < -slack
	if isMore || isShort {
		t.Errorf("the steps add up to %v, the job used %v; the ledger: %s %s", seconds(sum), o.cpu(), o.ledger("tasks"), o.ledger("cpu"))
	}
}

func seconds(v float64) time.Duration { return time.Duration(math.Round(v*1e6)) * time.Microsecond }

func micros(secs float64) int64 { return int64(math.Round(secs * 1e6)) }

func digits(n *json.Number) string {
	if n == nil {
		return ""
	}
	return n.String()
}

// millis formats seconds as CSV does.
func millis(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%.3f", decimal(t, text))
}

// decimal parses a number of an output; NaN for one that was not read.
func decimal(t *testing.T, text string) float64 {
	t.Helper()
	if text == "" {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// perSecond formats the rate of a number of bytes as the view does.
func perSecond(t *testing.T, bytes string, secs float64) string {
	t.Helper()
	if bytes == "" || secs <= 0 {
		return ""
	}
	return fmt.Sprint(math.Round(decimal(t, bytes) / secs))
}

// size parses a number with a unit, "1.5 MiB".
func size(t *testing.T, text string) float64 {
	t.Helper()
	number, unit, _ := strings.Cut(text, " ")
	return decimal(t, number) * map[string]float64{"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
}
