// Package samples reads the samples of resource-tracker strictly, for tests: CSV (section 7.2 of the specification
// and the live dialect) and JSON Lines (section 7.1). It shares no code with the writer.
package samples

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// Dialect is the set of columns of a CSV file.
type Dialect uint8

// The dialects, which differ in the header line.
const (
	Spec Dialect = iota // the 21 columns of section 7.2
	Live                // the 32 columns of the running service
)

// Row is one row of a CSV file. Scalars.Seconds is 0: the length of the interval
// is not in the file. PID and Process are absent in the dialect Spec.
type Row struct {
	Timestamp int64 // seconds since the epoch
	Scalars   rt.Scalars
	PID       rt.Opt[uint64]
	Process   rt.ProcessScalars
}

// ParseError reports a line of a CSV file that violates section 7.2.
type ParseError struct {
	Line   int    // from 1
	Column string // its name; empty if the error is about the whole line
	Reason string
}

func (e *ParseError) Error() string {
	if e.Column == "" {
		return fmt.Sprintf("samples: CSV line %d: %s", e.Line, e.Reason)
	}
	return fmt.Sprintf("samples: CSV line %d, column %s: %s", e.Line, e.Column, e.Reason)
}

// The header lines of the dialects.
const csvHeader = "timestamp,processes,utime,stime,cpu_usage,memory_free,memory_used,memory_buffers,memory_cached," +
	"memory_active,memory_inactive,disk_read_bytes,disk_write_bytes,disk_space_total_gb,disk_space_used_gb," +
	"disk_space_free_gb,net_recv_bytes,net_sent_bytes,gpu_usage,gpu_vram,gpu_utilized\n"

const liveCSVHeader = "timestamp,system_processes,system_utime,system_stime,system_cpu_usage,system_memory_free_mib," +
	"system_memory_used_mib,system_memory_buffers_mib,system_memory_cached_mib,system_memory_active_mib," +
	"system_memory_inactive_mib,system_disk_read_bytes,system_disk_write_bytes,system_disk_space_total_gb," +
	"system_disk_space_used_gb,system_disk_space_free_gb,system_net_recv_bytes,system_net_sent_bytes," +
	"system_gpu_usage,system_gpu_vram_mib,system_gpu_utilized,process_pid,process_children,process_utime," +
	"process_stime,process_cpu_usage,process_memory_mib,process_disk_read_bytes,process_disk_write_bytes," +
	"process_gpu_usage,process_gpu_vram_mib,process_gpu_utilized\n"

// maxLine is longer than any row with 32 columns of 20 digits, in bytes.
const maxLine = 4096

// ReadCSV reads the header and returns the dialect and the rows. The rows end with the first error, a *ParseError or
// the reader's own. It is strict: fields are empty or plain numbers with no more decimals than their column has. The
// last one may be NaN, which means empty. Used space is total - free, and every line ends in a newline.
func ReadCSV(r io.Reader) (Dialect, iter.Seq2[Row, error], error) {
	br := bufio.NewReaderSize(r, maxLine)
	header, err := readLine(br, 1)
	if errors.Is(err, io.EOF) {
		return 0, nil, &ParseError{Line: 1, Reason: "the file is empty, a header was expected"}
	}
	if err != nil {
		return 0, nil, err
	}
	dialect, columns := Spec, csvHeader
	switch string(header) + "\n" {
	case csvHeader:
	case liveCSVHeader:
		dialect, columns = Live, liveCSVHeader
	default:
		return 0, nil, &ParseError{Line: 1, Reason: "not the header of a resource-tracker file, which begins with timestamp,processes or timestamp,system_processes"}
	}
	names := strings.Split(strings.TrimSuffix(columns, "\n"), ",")
	rows := func(yield func(Row, error) bool) {
		for line := 2; ; line++ {
			b, err := readLine(br, line)
			if errors.Is(err, io.EOF) {
				return
			}
			var row Row
			if err == nil {
				row, err = parseRow(b, line, names)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
	return dialect, rows, nil
}

// readLine returns the next line without its newline, valid until the next call.
func readLine(br *bufio.Reader, line int) ([]byte, error) {
	b, err := br.ReadSlice('\n')
	switch {
	case err == nil:
		return b[:len(b)-1], nil
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, &ParseError{Line: line, Reason: fmt.Sprintf("longer than %d bytes", maxLine)}
	case errors.Is(err, io.EOF) && len(b) == 0:
		return nil, io.EOF
	case errors.Is(err, io.EOF):
		return nil, &ParseError{Line: line, Reason: "the file ends within it"}
	}
	return nil, fmt.Errorf("samples: read CSV line %d: %w", line, err)
}

// fields parses the fields of one line from left to right and keeps the first error.
type fields struct {
	rest  []byte
	line  int
	names []string
	next  int
	err   error
}

func parseRow(b []byte, line int, names []string) (Row, error) {
	if n := bytes.Count(b, []byte(",")) + 1; n != len(names) {
		return Row{}, &ParseError{Line: line, Reason: fmt.Sprintf("%d fields, the header has %d", n, len(names))}
	}
	f := fields{rest: bytes.TrimSuffix(b, []byte(",NaN")), line: line, names: names}
	row := Row{Timestamp: f.timestamp()}
	s := &row.Scalars
	s.Processes = f.whole()
	s.UserMillis, s.SystemMillis = f.fixed(3), f.fixed(3)
	s.CPUUsage = f.fraction()
	s.MemFree, s.MemUsed, s.MemBuffers = f.whole(), f.whole(), f.whole()
	s.MemCached, s.MemActive, s.MemInactive = f.whole(), f.whole(), f.whole()
	s.DiskReadBytes, s.DiskWriteBytes = f.whole(), f.whole()
	s.SpaceTotal, s.SpaceAvailable = f.space()
	s.NetRecvBytes, s.NetSentBytes = f.whole(), f.whole()
	s.GPUUsage = f.fraction()
	s.GPUVRAMUsed = f.mebibytes()
	s.GPUUtilized = f.whole()
	if len(names) > strings.Count(csvHeader, ",")+1 {
		f.live(&row)
	}
	if f.err != nil {
		return Row{}, f.err
	}
	return row, nil
}

func (f *fields) live(row *Row) {
	p := &row.Process
	row.PID, p.Children = f.whole(), f.whole()
	p.UserMillis, p.SystemMillis = f.fixed(3), f.fixed(3)
	p.CPUUsage = f.fraction()
	p.Memory = f.times(f.whole(), 1<<20)
	p.DiskReadBytes, p.DiskWriteBytes = f.whole(), f.whole()
	p.GPU = rt.GPUUse{Usage: f.fraction(), VRAMUsed: f.mebibytes(), Utilized: f.whole()}
}

func (f *fields) take() string {
	field, rest, _ := bytes.Cut(f.rest, []byte(","))
	f.rest = rest
	f.next++
	return string(field)
}

func (f *fields) fail(format string, args ...any) {
	if f.err == nil {
		f.err = &ParseError{Line: f.line, Column: f.names[f.next-1], Reason: fmt.Sprintf(format, args...)}
	}
}

func (f *fields) timestamp() int64 {
	s := f.take()
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil || s[0] == '+' {
		f.fail("%q is no number of seconds", s)
	}
	return int64(v)
}

func (f *fields) whole() rt.Opt[uint64] { return f.parse(f.take(), 0) }

func (f *fields) fixed(decimals int) rt.Opt[uint64] { return f.parse(f.take(), decimals) }

// parse parses digits with at most that many decimals, as a multiple of the last decimal.
func (f *fields) parse(s string, decimals int) (out rt.Opt[uint64]) {
	if s == "" {
		return out
	}
	digits, frac, dotted := strings.Cut(s, ".")
	lacksDecimals := dotted && frac == ""
	if digits == "" || lacksDecimals || len(frac) > decimals || strings.ContainsFunc(digits+frac, notDigit) {
		f.fail("%q is no number with at most %d decimals", s, decimals)
		return out
	}
	v, err := strconv.ParseUint(digits+frac+"000000"[:decimals-len(frac)], 10, 64)
	if err != nil {
		f.fail("%q is too large", s)
		return out
	}
	return rt.Some(v)
}

func notDigit(r rune) bool { return r < '0' || r > '9' }

// atMost fails if o, which is the column's value times unit, is more than most.
func (f *fields) atMost(o rt.Opt[uint64], most, unit uint64, name string) (uint64, bool) {
	v, ok := o.Get()
	if ok && v > most {
		f.fail("%d%s is too large", v/unit, name)
		return 0, false
	}
	return v, ok
}

func (f *fields) times(o rt.Opt[uint64], unit uint64) (out rt.Opt[uint64]) {
	if v, ok := f.atMost(o, math.MaxUint64/unit, 1, ""); ok {
		out.Set(v * unit)
	}
	return out
}

func (f *fields) fraction() (out rt.Opt[float64]) {
	if v, ok := f.atMost(f.fixed(4), 1<<53, 10000, ""); ok { // a float64 cannot hold more with the last decimal
		out.Set(float64(v) / 10000)
	}
	return out
}

func (f *fields) mebibytes() (out rt.Opt[uint64]) {
	if v, ok := f.atMost(f.fixed(4), math.MaxUint64/(1<<20), 10000, " MiB"); ok {
		out.Set((v<<20 + 5000) / 10000)
	}
	return out
}

func (f *fields) space() (total, available rt.Opt[uint64]) {
	total = f.times(f.fixed(6), 1000)
	usedText := f.take()
	negative := strings.HasPrefix(usedText, "-")
	used := f.times(f.parse(strings.TrimPrefix(usedText, "-"), 6), 1000)
	available = f.times(f.fixed(6), 1000)

	t, a := total.Or(0), available.Or(0)
	want := rt.None[uint64]()
	if total.Valid() && available.Valid() {
		want = rt.Some(max(t, a) - min(t, a))
	}
	isNegative := want.Valid() && a > t
	if isWrong := used != want || negative != isNegative; isWrong && f.err == nil {
		f.err = &ParseError{Line: f.line, Column: f.names[f.next-2], Reason: fmt.Sprintf("%q is not total - free", usedText)}
	}
	return total, available
}
