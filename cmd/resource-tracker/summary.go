package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload/streaming"
)

// summaryTimeout limits the time that the summary delays the end of the job's step.
const summaryTimeout = time.Second

// printSummary prints in a line what the command of a Slurm job used, and how to see more. It does so if the user chose
// neither a spool nor an output. The record is read again, so that the line has the figures of a report.
func (t *tracking) printSummary(s settings) {
	if !s.anySpool || t.writer == nil {
		return
	}
	text := ""
	err := recovery.AtMost(summaryTimeout, func() (err error) {
		text, err = summaryOf(t.writer.Path())
		return err
	})
	if err != nil {
		return // a warning was printed if the record could not be written
	}
	job, _, _ := strings.Cut(t.run.Label(), ".")
	more := "rt-job " + job
	if t.dir != s.spoolDir {
		more = "rt-job --spool " + streaming.ShellWord(t.dir) + " " + job
	}
	printMessage(fmt.Sprintf("resource-tracker: %s; %s shows more", strings.TrimSpace(text), more))
}

// summaryOf returns the report of a run in one line.
func summaryOf(path string) (string, error) {
	r, err := spool.Open(path)
	if err != nil {
		return "", err
	}
	defer r.Close()
	events, err := r.Events()
	if err != nil {
		return "", err
	}
	sum, err := report.Summarize(r.Run(), events, r.Usage(context.Background(), 1, 0))
	if err != nil {
		return "", err
	}
	var line bytes.Buffer
	err = report.WriteOneLine(&line, report.Jobs([]*report.Summary{sum})[0], report.TextOptions{})
	return line.String(), err
}
