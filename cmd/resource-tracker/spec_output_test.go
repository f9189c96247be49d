package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/e2e/samples"
	"github.com/resource-tracker/rt/format/resourcetracker"
)

// header is section 7.2, character for character.
const header = "timestamp,processes,utime,stime,cpu_usage,memory_free,memory_used,memory_buffers,memory_cached,memory_active,memory_inactive,disk_read_bytes,disk_write_bytes,disk_space_total_gb,disk_space_used_gb,disk_space_free_gb,net_recv_bytes,net_sent_bytes,gpu_usage,gpu_vram,gpu_utilized"

// T-CFG-01: without flags, JSON Lines on standard output.
func TestT_CFG_01(t *testing.T) {
	t.Parallel()
	lines := runsOf(t).json
	if len(lines) < samplesOfARun {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, "}\n") {
			t.Errorf("not a whole line: %q", line)
		}
		object(t, line)
	}
}

// T-CFG-02: --format csv emits the header before the first row.
func TestT_CFG_02(t *testing.T) {
	t.Parallel()
	out, stderr, status := ran(t, t.TempDir(), "--format", "csv", "true")
	lines := strings.Split(out, "\n")
	if status != 0 || stderr != "" || len(lines) != 3 || lines[0] != header || lines[2] != "" {
		t.Fatalf("status %d, standard error %q, output\n%s", status, stderr, out)
	}
	if first, _, _ := strings.Cut(lines[1], ","); !regexp.MustCompile(`^[0-9]+$`).MatchString(first) {
		t.Errorf("the row begins with %q", first)
	}
}

// T-CFG-03: --interval 0 ends with another status than 0, and so does all that is
// no number of seconds. Nothing runs.
func TestT_CFG_03(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, v := range []string{"0", "-1", "soon", "1e9", "1000000000", "1.5", ""} {
		out, stderr, status := ran(t, dir, "--interval="+v, "touch", "ran")
		if status == 0 || out != "" {
			t.Errorf("--interval=%s: status %d, output %q", v, status, out)
		}
		if want := fmt.Sprintf("--interval %q: give a whole number of seconds from 1 to", v); !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("--interval=%s: standard error %q", v, stderr)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command ran")
	}
}

// T-CFG-04: the interval of the TOML file.
func TestT_CFG_04(t *testing.T) {
	t.Parallel()
	paced(t, 3, "[tracker]\ninterval_secs = 3\n")
}

// T-CFG-05: --interval wins over the TOML file.
func TestT_CFG_05(t *testing.T) {
	t.Parallel()
	paced(t, 2, "[tracker]\ninterval_secs = 5\n", "--interval", "2")
}

// paced runs the program with a TOML file until two samples are there and checks
// that its readings keep the interval. Readings are due on a grid: one may be late
// on a busy machine, so the better of the two counts.
func paced(t *testing.T, seconds int64, toml string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "resource-tracker.toml"), []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	if testing.Short() { // make check waits for the readings
		_, stderr, status := ran(t, dir, append(args, "-q", "--spool", "runs", "true")...)
		run, _, err := snapshotsOf(filepath.Join(dir, "runs"))
		if status != 0 || err != nil || run.Interval != float64(seconds) {
			t.Errorf("status %d, %s, %v: an interval of %v s is on record, want %d", status, stderr, err, run.Interval, seconds)
		}
		return
	}
	if _, err := sampled(dir, 2, append(args, "-o", "/dev/stdout", "--spool", "runs")...); err != nil {
		t.Fatal(err)
	}
	run, readings, err := snapshotsOf(filepath.Join(dir, "runs"))
	if err != nil || len(readings) < 3 {
		t.Fatalf("%d readings, %v", len(readings), err)
	}
	if run.Interval != float64(seconds) {
		t.Errorf("an interval of %v s is on record, want %d", run.Interval, seconds)
	}
	off := time.Hour
	for k, s := range readings[1:3] {
		late := time.Duration(s.Boot-readings[0].Boot) - time.Duration(int64(k+1)*seconds)*time.Second
		if late.Abs() < off.Abs() {
			off = late
		}
	}
	if off.Abs() >= time.Second {
		t.Errorf("the readings are %s off an interval of %d s", off, seconds)
	}
}

// T-CFG-06: a TOML file that is missing is passed over in silence, and the defaults hold.
func TestT_CFG_06(t *testing.T) {
	t.Parallel()
	out, stderr, status := ran(t, t.TempDir(), "--config", "no/such/file.toml", "--spool", "runs", "-o", "/dev/stdout", "true")
	if status != 0 || stderr != "" || object(t, out)["job_name"] != nil {
		t.Errorf("status %d, standard error %q, output %q", status, stderr, out)
	}
	dir := t.TempDir()
	if _, stderr, status := ran(t, dir, "-c", "no/such/file.toml", "--spool", "runs", "true"); status != 0 || stderr != "" {
		t.Fatalf("status %d, standard error %q", status, stderr)
	}
	run, _, err := snapshotsOf(filepath.Join(dir, "runs"))
	if err != nil || run.Interval != 1 || run.Meta.JobName != "" {
		t.Errorf("interval %v, job name %q, %v", run.Interval, run.Meta.JobName, err)
	}
}

// T-OUT-01: each line is JSON for any library.
func TestT_OUT_01(t *testing.T) {
	t.Parallel()
	for _, line := range runsOf(t).json {
		if !json.Valid([]byte(line)) || strings.Count(line, "\n") != 1 {
			t.Errorf("%q", line)
		}
		doc := object(t, line)
		for key, kind := range map[string]any{"cpu": map[string]any{}, "memory": map[string]any{}, "network": []any{}, "disk": []any{}, "gpu": []any{}} {
			if got, want := fmt.Sprintf("%T", doc[key]), fmt.Sprintf("%T", kind); got != want {
				t.Errorf("%s is a %s, want a %s", key, got, want)
			}
		}
	}
}

// T-OUT-02: timestamp_secs is there, a positive integer.
func TestT_OUT_02(t *testing.T) {
	t.Parallel()
	for _, line := range runsOf(t).json {
		n, _ := object(t, line)["timestamp_secs"].(json.Number)
		if v, err := strconv.ParseInt(string(n), 10, 64); err != nil || v <= 0 {
			t.Errorf("timestamp_secs is %q in %s", n, line)
		}
	}
}

// T-OUT-03: the version is there, as --version prints it.
func TestT_OUT_03(t *testing.T) {
	t.Parallel()
	out, _, _ := ran(t, t.TempDir(), "--version")
	for _, line := range runsOf(t).json {
		v, ok := object(t, line)["resource-tracker-version"].(string)
		if !ok || v == "" || !strings.HasPrefix(out, "resource-tracker "+v+" (") {
			t.Errorf("version %q, --version prints %q", v, out)
		}
	}
}

// T-OUT-04: time stamps never fall.
func TestT_OUT_04(t *testing.T) {
	t.Parallel()
	last := json.Number("0")
	for _, line := range runsOf(t).json {
		n, _ := object(t, line)["timestamp_secs"].(json.Number)
		a, _ := last.Int64()
		b, err := n.Int64()
		if err != nil || b < a {
			t.Errorf("%s follows %s", n, last)
		}
		last = n
	}
}

// rowsOf are the fields of the rows of the shared CSV run.
func rowsOf(t *testing.T) [][]string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(runsOf(t).csv, "\n"), "\n")
	var rows [][]string
	for _, line := range lines[1:] {
		rows = append(rows, strings.Split(line, ","))
	}
	if len(rows) < samplesOfARun {
		t.Fatalf("%d rows", len(rows))
	}
	return rows
}

// column is the place of a column.
func column(name string) int { return slices.Index(strings.Split(header, ","), name) }

// T-CSV-01: the header comes once, as the first line.
func TestT_CSV_01(t *testing.T) {
	t.Parallel()
	csv := runsOf(t).csv
	if !strings.HasPrefix(csv, header+"\n") || strings.Count(csv, "timestamp") != 1 {
		t.Errorf("the header is not the first line, once:\n%s", csv)
	}
}

// T-CSV-02: each row has as many columns as the header.
func TestT_CSV_02(t *testing.T) {
	t.Parallel()
	want := strings.Count(header, ",") + 1
	for _, row := range rowsOf(t) {
		if len(row) != want {
			t.Errorf("%d columns, want %d: %q", len(row), want, row)
		}
	}
}

// T-CSV-03: cpu_usage is utilization_pct with 4 decimals. Both are of the same
// readings: the rows as printed, the samples from the spool of that run.
func TestT_CSV_03(t *testing.T) {
	t.Parallel()
	rows, samples := rowsOf(t), runsOf(t).ofCSV
	if len(rows) != len(samples) {
		t.Fatalf("%d rows and %d samples", len(rows), len(samples))
	}
	for i, row := range rows {
		want := ""
		if v, ok := samples[i].CPU.UtilizationPct.Get(); ok {
			want = strconv.FormatFloat(v, 'f', 4, 64)
		}
		if got := row[column("cpu_usage")]; got != want {
			t.Errorf("cpu_usage is %s, utilization_pct with 4 decimals %s", got, want)
		}
		if want := strconv.FormatInt(samples[i].TimestampSecs, 10); row[0] != want {
			t.Errorf("row %d is of %s, the sample of %s", i, row[0], want)
		}
	}
}

// T-CSV-04: used space is total - free, to the last digit printed.
func TestT_CSV_04(t *testing.T) {
	t.Parallel()
	millionths := func(field string) int64 {
		whole, decimals, _ := strings.Cut(field, ".")
		v, err := strconv.ParseInt(whole+decimals, 10, 64)
		if err != nil || len(decimals) != 6 {
			t.Fatalf("%q is no number with 6 decimals", field)
		}
		return v
	}
	for _, row := range rowsOf(t) {
		at := column("disk_space_total_gb")
		if row[at] == "" && row[at+1] == "" && row[at+2] == "" {
			continue // below a chroot no file system is in sight, and none is invented
		}
		if millionths(row[at+1]) != millionths(row[at])-millionths(row[at+2]) {
			t.Errorf("%s is not %s - %s", row[at+1], row[at], row[at+2])
		}
	}
}

// T-CSV-05: a sample has one text. The program says the same twice of a machine
// that stands still, and what it printed is printed again as it was.
func TestT_CSV_05(t *testing.T) {
	t.Parallel()
	node := machineOf(t, "networks") // it has no file system with changing space
	var rows []string
	for range 2 {
		out := node.run(t, "--format", "csv", "true")
		_, row, _ := strings.Cut(strings.TrimPrefix(out, header+"\n"), ",")
		rows = append(rows, row)
	}
	if rows[0] != rows[1] || !strings.Contains(rows[0], ",") {
		t.Errorf("of the same machine:\n%s%s", rows[0], rows[1])
	}

	csv := runsOf(t).csv
	_, all, err := samples.ReadCSV(strings.NewReader(csv))
	if err != nil {
		t.Fatal(err)
	}
	again := []byte(header + "\n")
	for row, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		again = resourcetracker.AppendCSV(again, row.Timestamp, &row.Scalars)
	}
	if string(again) != csv {
		t.Errorf("printed\n%sand again\n%s", csv, again)
	}
}

// T-CSV-06: no trailing comma, nothing quoted, nothing but numbers. What was not read
// is empty, and NaN at the end of the row.
func TestT_CSV_06(t *testing.T) {
	t.Parallel()
	number := regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	for _, row := range rowsOf(t) {
		for i, field := range row {
			notRead := field == "" && i < len(row)-1 || field == "NaN" && i == len(row)-1
			if !number.MatchString(field) && !notRead {
				t.Errorf("column %d is %q", i+1, field)
			}
		}
	}
	broken := filepath.Join(t.TempDir(), "sys") // AMD's driver is loaded, and cannot list its cards
	for _, dir := range []string{"module/amdgpu", "bus/pci/drivers"} {
		if err := os.MkdirAll(filepath.Join(broken, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(broken, "bus/pci/drivers/amdgpu"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for end, flags := range map[string][]string{",0.0000,0.0000,0\n": {"--gpu", "off"}, ",,,NaN\n": {"--path.sysfs", broken}} {
		out, _, _ := ran(t, t.TempDir(), append(flags, "--format", "csv", "true")...)
		_, row, _ := strings.Cut(out, "\n")
		if !strings.HasSuffix(row, end) || strings.ContainsAny(out, `"' `) {
			t.Errorf("with %q: %q", flags, out)
		}
	}
}
