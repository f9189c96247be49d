package powerapi

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// CSVWriter writes reports of one kind in the form that PowerAPI's CSV input reads: a header,
// and times in milliseconds that never decrease. It writes one group of an HWPCReport, because
// the input takes the name of the group from the name of the file.
//
//	rapl, core, msr  timestamp,sensor,target,socket,cpu and the events; a row for each CPU
//	power            timestamp,sensor,target,power
//	procfs           timestamp,sensor,target,usage,global_cpu_usage; a row for each target
type CSVWriter struct {
	// Events are the events of the group. Each has a column. Others, such as TimeEnabled, are left out.
	Events []string
	// Group is the group of an HWPCReport that is written.
	Group string

	csv    *csv.Writer
	header bool
	last   int64 // milliseconds
}

// NewCSVWriter returns a writer of PowerReports or ProcfsReports.
func NewCSVWriter(w io.Writer) *CSVWriter { return &CSVWriter{csv: csv.NewWriter(w)} }

// NewGroupWriter returns a writer of one group. Each CPU of it must have all events.
func NewGroupWriter(w io.Writer, group string, events []string) *CSVWriter {
	return &CSVWriter{csv: csv.NewWriter(w), Group: group, Events: slices.Clone(events)}
}

// common are the first columns of each kind of report.
var common = [...]string{"timestamp", "sensor", "target"}

// columns returns the columns after the common ones.
func (w *CSVWriter) columns(r Report) []string {
	switch r.(type) {
	case *HWPCReport:
		return append([]string{"socket", "cpu"}, w.Events...)
	case *PowerReport:
		return []string{"power"}
	}
	return []string{"usage", "global_cpu_usage"}
}

// Write writes one report. If the report before is newer, the report gets the time of that report.
func (w *CSVWriter) Write(r Report) error {
	if !w.header {
		w.header = true
		w.last = r.Head().Time.UnixMilli()
		if err := w.csv.Write(append(slices.Clone(common[:]), w.columns(r)...)); err != nil {
			return err
		}
	}
	w.last = max(w.last, r.Head().Time.UnixMilli())
	switch r := r.(type) {
	case *HWPCReport:
		return w.group(r)
	case *PowerReport:
		if err := measured("power", r.Power); err != nil {
			return err
		}
		return w.row(r.Sensor, r.Target, number(r.Power))
	case *ProcfsReport:
		if err := r.measured(); err != nil {
			return err
		}
		for _, target := range r.Targets {
			if v, ok := r.Usage[target]; ok {
				if err := w.row(r.Sensor, target, number(v), number(r.GlobalCPUUsage)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *CSVWriter) row(sensor, target string, rest ...string) error {
	return w.csv.Write(append([]string{strconv.FormatInt(w.last, 10), sensor, target}, rest...))
}

func (w *CSVWriter) group(r *HWPCReport) error {
	sockets := r.Groups[w.Group]
	for _, socket := range slices.Sorted(maps.Keys(sockets)) {
		for _, cpu := range slices.Sorted(maps.Keys(sockets[socket])) {
			row := []string{strconv.FormatUint(socket, 10), strconv.FormatUint(cpu, 10)}
			for _, event := range w.Events {
				n, ok := sockets[socket][cpu][event]
				if !ok {
					return fmt.Errorf("CPU %d of socket %d has not counted %s: PowerAPI's CSV input reads no empty field", cpu, socket, event)
				}
				row = append(row, strconv.FormatUint(n, 10))
			}
			if err := w.row(r.Sensor, r.Target, row...); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush writes what is buffered.
func (w *CSVWriter) Flush() error {
	w.csv.Flush()
	return w.csv.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// DecodeCSV yields the reports of a CSV file. The header determines their kind. group is the
// name of the group, which is not in the file.
//
// Consecutive rows with the same time, sensor and target are one HWPCReport. Consecutive rows with
// the same time and sensor are one ProcfsReport. Each row of power is a PowerReport. A figure that
// is out of range drops its row and yields an error. Any other error ends the file.
func DecodeCSV(r io.Reader, group string) iter.Seq2[Report, error] {
	return func(yield func(Report, error) bool) {
		c := csv.NewReader(r)
		header, err := c.Read()
		if err == io.EOF {
			return
		}
		t := csvTable{group: group}
		if err == nil {
			err = t.begin(header)
		}
		if err != nil {
			yield(nil, fmt.Errorf("read the header of a CSV file of reports: %w", err))
			return
		}
		for {
			row, err := c.Read()
			if err == io.EOF {
				break
			}
			if err != nil {
				yield(nil, err) // it names the line
				return
			}
			done, err := t.row(row)
			if done != nil && !yield(done, nil) {
				return
			}
			if err != nil {
				line, _ := c.FieldPos(0)
				if !yield(nil, fmt.Errorf("line %d: %w", line, err)) || !errors.Is(err, errRange) {
					return
				}
			}
		}
		if t.report != nil {
			yield(t.report, nil)
		}
	}
}

// csvTable makes reports from rows.
type csvTable struct {
	group  string
	at     map[string]int // the index of a column, by its name
	kind   string         // a column that only this kind of report has
	others []string       // the other columns: the events of a group, or the metadata of a PowerReport
	report Report         // the last report, to which the next row may belong
	key    [3]string      // timestamp, sensor and target of report; no target for a ProcfsReport
}

var errColumns = errors.New("the columns are not from a report: a report has timestamp, sensor, target, and socket and cpu, or power, or usage and global_cpu_usage")

func (t *csvTable) begin(header []string) error {
	t.at = map[string]int{}
	valid(header)
	for i, name := range header {
		if _, twice := t.at[name]; twice {
			return fmt.Errorf("the header has the column %q twice", shorten(name))
		}
		t.at[name] = i
	}
	for _, kind := range [...][]string{{"cpu", "socket"}, {"power"}, {"usage", "global_cpu_usage"}} {
		known := append(slices.Clone(common[:]), kind...)
		isMissing := func(name string) bool { return !slices.Contains(header, name) }
		if !slices.ContainsFunc(known, isMissing) {
			t.kind = kind[0]
			t.others = slices.DeleteFunc(slices.Clone(header), func(name string) bool { return slices.Contains(known, name) })
			return nil
		}
	}
	return errColumns
}

// valid replaces what is not UTF-8 in fields, because JSON cannot hold it.
func valid(fields []string) {
	for i := range fields {
		fields[i] = strings.ToValidUTF8(fields[i], "\ufffd")
	}
}

// row adds a row to a report. If it begins a new report, it returns the report before, else nil.
func (t *csvTable) row(row []string) (done Report, err error) {
	valid(row)
	get := func(name string) string { return row[t.at[name]] }
	key := [3]string{get("timestamp"), get("sensor"), get("target")}
	if t.kind == "usage" {
		key[2] = ""
	}
	if t.report == nil || key != t.key || t.kind == "power" {
		done, t.key = t.report, key
		at, err := parseStamp(key[0])
		if err != nil {
			return nil, err
		}
		t.report = t.start(Header{Time: at, Sensor: key[1], Metadata: Metadata{}}, get("target"))
	}
	switch r := t.report.(type) {
	case *HWPCReport:
		err = t.counters(r, row)
	case *PowerReport:
		r.Power, err = parseNumber("power", get("power"))
		if err != nil {
			t.report = nil
		}
		for _, name := range t.others {
			r.Metadata[name] = get(name)
		}
	case *ProcfsReport:
		err = t.usage(r, get)
	}
	return done, err
}

func (t *csvTable) usage(r *ProcfsReport, get func(string) string) error {
	target := get("target")
	if _, twice := r.Usage[target]; twice {
		return fmt.Errorf("two rows of one time have the target %q", shorten(target))
	}
	usage, err := parseNumber("usage", get("usage"))
	if err != nil {
		return err
	}
	global, err := parseNumber("global_cpu_usage", get("global_cpu_usage"))
	if err != nil {
		return err
	}
	r.Targets, r.Usage[target], r.GlobalCPUUsage = append(r.Targets, target), usage, global
	return nil
}

func (t *csvTable) start(h Header, target string) Report {
	switch t.kind {
	case "cpu":
		return &HWPCReport{Header: h, Target: target}
	case "power":
		return &PowerReport{Header: h, Target: target}
	}
	return &ProcfsReport{Header: h, Usage: map[string]float64{}}
}

func (t *csvTable) counters(r *HWPCReport, row []string) error {
	socket, err1 := strconv.ParseUint(row[t.at["socket"]], 10, 64)
	cpu, err2 := strconv.ParseUint(row[t.at["cpu"]], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for _, event := range t.others {
		n, err := strconv.ParseUint(row[t.at[event]], 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", shorten(event), err)
		}
		r.Set(t.group, socket, cpu, event, n)
	}
	return nil
}

func parseNumber(name, text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil {
		err = measured(name, v)
	}
	return v, err
}
