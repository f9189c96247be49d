// Package fakesacct prints records as sacct does, for tests. It prints a text unchanged, with its
// line feeds and separators.
package fakesacct

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record has the fields of a job or a step by the names that sacct gives them. Times are seconds
// since the epoch, or words. The record of a step follows its job's record. DBIndex and Submit have
// defaults.
type Record map[string]string

// Print writes the fields of the records that the arguments ask for. timeFormat is SLURM_TIME_FORMAT.
func Print(w io.Writer, records []Record, args []string, timeFormat string) error {
	var out strings.Builder
	fields := strings.Split(value(args, "--format="), ",")
	if !slices.Contains(args, "--noheader") {
		out.WriteString(strings.Join(fields, "|") + "\n")
	}
	index := 0
	for _, r := range records {
		job, _, isStep := strings.Cut(r["JobIDRaw"], ".")
		if !isStep {
			index++
		}
		if !isAsked(args, job, isStep) {
			continue
		}
		values := make([]string, len(fields))
		for i, name := range fields {
			values[i] = r.field(name, index, timeFormat)
		}
		out.WriteString(strings.Join(values, "|") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// isAsked reports whether the arguments ask for the record of a job or of one of its steps.
func isAsked(args []string, job string, isStep bool) bool {
	if isStep && slices.Contains(args, "--allocations") {
		return false
	}
	jobs := value(args, "--jobs=")
	return jobs == "" || slices.Contains(strings.Split(jobs, ","), job)
}

// value returns the value of an option.
func value(args []string, option string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, option); ok {
			return v
		}
	}
	return ""
}

func (r Record) field(name string, index int, timeFormat string) string {
	text, isThere := r[name]
	switch name {
	case "DBIndex":
		if !isThere {
			return strconv.Itoa(index)
		}
	case "Submit":
		if !isThere {
			text = "1795168000"
		}
		return formatTime(text, timeFormat)
	case "Start", "End":
		return formatTime(text, timeFormat)
	}
	return text
}

// maxTime is the length to which Slurm 22.05 cuts a time.
const maxTime = len("2006-01-02T15:04:05")

func formatTime(text, format string) string {
	secs, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return text // "Unknown"
	}
	out := time.Unix(secs, 0).Format("2006-01-02T15:04:05")
	if format != "" {
		out = strings.NewReplacer("%%", "%", "%s", text).Replace(format)
	}
	return out[:min(len(out), maxTime)]
}

// Main is the main function of a program sacct. Its records are a JSON array in the file that SLURM_CONF
// names, which rt passes on. It appends its arguments to the file with the suffix ".calls".
func Main() {
	err := run(os.Getenv("SLURM_CONF"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakesacct:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var records []Record
	if err := json.Unmarshal(text, &records); err != nil {
		return err
	}
	calls, err := os.OpenFile(path+".calls", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer calls.Close()
	if _, err := fmt.Fprintln(calls, strings.Join(os.Args[1:], " ")); err != nil {
		return err
	}
	return Print(os.Stdout, records, os.Args[1:], os.Getenv("SLURM_TIME_FORMAT"))
}
