package sonar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt/slurm/accounting"
)

// sacctStates are the states of jobs that have ended.
const sacctStates = "BOOT_FAIL,CANCELLED,COMPLETED,DEADLINE,FAILED,NODE_FAIL,OUT_OF_MEMORY,PREEMPTED,TIMEOUT"

// SacctArgs returns the arguments with which sacct selects the jobs between from and to: those that have
// ended or, if unended is set, all.
func SacctArgs(from, to time.Time, unended bool) []string {
	const layout = "2006-01-02T15:04:05"
	args := []string{"--allusers", "--starttime=" + from.Format(layout), "--endtime=" + to.Format(layout)}
	if !unended {
		args = append(args, "--state="+sacctStates)
	}
	return args
}

// maxSacct limits the output of sacct, in bytes.
const maxSacct = 1 << 30

// SacctJobs returns the jobs that args select, from a call of sacct for their figures and one for their texts.
// It runs sacct until ctx ends. Its errors say how to ask for less.
func SacctJobs(ctx context.Context, program string, args []string) ([]JobRecord, error) {
	figures := append(slices.Clone(args), "--parsable2", "--format="+strings.Join(sacctFields(), ","))
	output, err := accounting.Run(ctx, program, figures, maxSacct)
	if err != nil {
		return nil, advise(err)
	}
	texts, textErr := accounting.ReadTexts(ctx, program, args, textFields[:], maxSacct)
	jobs, err := parseSacct(output, func(dbIndex, jobIDRaw string) []string {
		return texts[accounting.Record{DBIndex: dbIndex, JobIDRaw: jobIDRaw}]
	}, time.Local)
	if textErr != nil && len(jobs) > 0 {
		err = errors.Join(err, fmt.Errorf("read the names of the jobs: %w", advise(textErr)))
	}
	return jobs, err
}

// advise says how to ask for less.
func advise(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("sacct did not answer before the deadline; slurmdbd may be down or busy: ask for less time (--window) or wait longer (--deadline)")
	case errors.Is(err, accounting.ErrTooLong):
		return fmt.Errorf("%w: ask for less time (--window, --span)", err)
	}
	return err
}

// WriteFailure writes the record of a failure of sacct and returns its error.
func WriteFailure(w io.Writer, failed error, asJSON bool) error {
	f := Failure{Version: Version, Message: strings.Join(strings.Fields(failed.Error()), " "), Timestamp: time.Now()}
	out := f.AppendCSV(nil)
	if asJSON {
		out = f.AppendJSON(nil)
	}
	_, err := w.Write(out)
	return errors.Join(failed, err)
}

// WriteJobs writes the records of jobs.
func WriteJobs(w io.Writer, jobs []JobRecord, asJSON bool) error {
	var out []byte
	var err error
	if asJSON {
		out, err = AppendJobsJSON(nil, jobs)
	}
	for i := 0; i < len(jobs) && err == nil && !asJSON; i++ {
		out, err = jobs[i].AppendCSV(out)
	}
	if err == nil {
		_, err = w.Write(out)
	}
	return err
}
