// Package report makes reports from the complete records of a site. A record can be from any
// source, and its readings need memory. So another process, with limits of its own, reads the
// record. Maker starts that process, and Load is what it does.
package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/site"
)

// The limits of one report.
const (
	maxPlots   = 64        // runs with plots; a report of more has none
	maxRecords = 128 << 20 // bytes of all records, compressed
	maxOutput  = 16 << 20  // bytes of the report
	maxTime    = time.Minute
	maxWait    = 15 * time.Second // for the report that another reader wants
	maxMessage = 4 << 10          // bytes of the messages of the process
)

// ExitUnreadable is the exit status of the process if it can read no record of the job.
const ExitUnreadable = 65

// dirs matches the directories of the records.
const dirs = "rt-report-*"

// Maker makes reports, one at a time. Readers take turns.
type Maker struct {
	// Open opens the complete record of a run.
	Open func(ctx context.Context, runID string) (io.ReadCloser, error)
	// Command returns the process that calls Load with the directory dir and writes the report to its standard output.
	Command func(ctx context.Context, dir string) *exec.Cmd
	Temp    string // directory of temporary files; empty: the system's

	front *site.Slots // one place for each reader, whose other requests wait before it
	turn  *site.Slots // the one report that is made
}

// New returns a Maker, and removes what an earlier process has left in the directory of temporary files.
func New(m Maker) *Maker {
	m.front, m.turn = site.NewSlots(math.MaxInt, 1), site.NewSlots(1, 1)
	if m.Temp == "" {
		m.Temp = os.TempDir()
	}
	left, _ := filepath.Glob(filepath.Join(m.Temp, dirs)) // the pattern is valid
	for _, dir := range left {
		info, err := os.Stat(dir)
		isOld := err == nil && time.Since(info.ModTime()) > time.Hour
		if isOld {
			_ = os.RemoveAll(dir) // the next start tries it again
		}
	}
	return &m
}

// manifest is what Load reads.
type manifest struct {
	Form    string            `json:"form"`
	Name    string            `json:"name"`
	Records []recordFile      `json:"records"`
	Earlier []json.RawMessage `json:"earlier"` // report.DeliveredFigures
}

// recordFile is the record of a run in a directory.
type recordFile struct {
	Name string  `json:"name"` // of the file
	Run  *rt.Run `json:"run"`  // as the registry has it
	// Problem is why there is no file; empty if there is one.
	Problem string `json:"problem"`
}

const manifestName = "manifest.json"

// Write writes a report. Its errors of the kinds site.ErrNoReport and site.ErrBusy are for the reader.
func (m *Maker) Write(ctx context.Context, w io.Writer, r site.Report) (err error) {
	if len(r.Runs) > site.MaxReportRuns {
		return fmt.Errorf("%w: the job has %d runs with records, and a report has at most %d", site.ErrNoReport, len(r.Runs), site.MaxReportRuns)
	}
	size := int64(0)
	for _, run := range r.Runs {
		size += run.Held.RecordBytes
	}
	if size > maxRecords {
		return fmt.Errorf("%w: its records have %d MiB, and those of a report at most %d; rt-spool report has no such limit", site.ErrNoReport, size>>20, maxRecords>>20)
	}
	endTurn, err := m.takeTurn(ctx, r)
	if err != nil {
		return err
	}
	defer endTurn()
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	dir, err := os.MkdirTemp(m.Temp, dirs)
	if err != nil {
		return fmt.Errorf("make a directory for the records of job %s: %w", r.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := m.prepare(ctx, dir, r); err != nil {
		return fmt.Errorf("get the records of job %s: %w", r.Name, err)
	}
	return m.run(ctx, w, dir)
}

// takeTurn waits until the report can be made, at most maxWait, and then returns site.ErrBusy. Of each reader only one
// request waits for it: a reader with many connections does not delay the others by all of them.
func (m *Maker) takeTurn(ctx context.Context, r site.Report) (end func(), err error) {
	waiting, cancel := context.WithTimeoutCause(ctx, maxWait, site.ErrBusy)
	defer cancel()
	leave := m.front.TakeUnits(waiting, r.Reader, 1)
	if leave == nil {
		return nil, context.Cause(waiting)
	}
	done := m.turn.TakeUnits(waiting, r.Reader, 1)
	if done == nil {
		leave()
		return nil, context.Cause(waiting)
	}
	return func() {
		done()
		leave()
	}, nil
}

// prepare puts what Load reads into a directory.
func (m *Maker) prepare(ctx context.Context, dir string, r site.Report) error {
	list := manifest{Form: r.Form, Name: r.Name}
	left := int64(maxRecords)
	for i, run := range r.Runs {
		file := recordFile{Name: strconv.Itoa(i) + ".rtrec", Run: run.Record}
		n, err := m.copyRecord(ctx, filepath.Join(dir, file.Name), run.ID, left)
		switch {
		case errors.Is(err, site.ErrNotFound): // retention has removed it, or the object store has lost it
			file.Problem = "its record is gone"
		case err != nil:
			return fmt.Errorf("run %s: %w", run.ID, err)
		}
		left -= n
		list.Records = append(list.Records, file)
	}
	list.Earlier = summariesOf(r.Earlier)
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, manifestName), text, 0o600)
}

func (m *Maker) copyRecord(ctx context.Context, path, runID string, limit int64) (n int64, err error) {
	from, err := m.Open(ctx, runID)
	if err != nil {
		return 0, err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(to, io.LimitReader(from, limit+1))
	if n > limit {
		err = fmt.Errorf("the records are larger than %d MiB", maxRecords>>20)
	}
	return n, errors.Join(err, to.Close())
}

// run starts the process that makes the report, and copies its output.
func (m *Maker) run(ctx context.Context, w io.Writer, dir string) error {
	cmd := m.Command(ctx, dir)
	output, message := &limited{to: w, left: maxOutput}, &limited{to: &strings.Builder{}, left: maxMessage}
	cmd.Stdout, cmd.Stderr = output, message
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if output.isFull {
		return fmt.Errorf("%w: it would be larger than %d MiB", site.ErrNoReport, maxOutput>>20)
	}
	if err != nil {
		text := strings.TrimSpace(message.to.(*strings.Builder).String())
		exit, isExit := errors.AsType[*exec.ExitError](err)
		isUnreadable := isExit && exit.ExitCode() == ExitUnreadable
		if isUnreadable {
			return fmt.Errorf("%w: %s", site.ErrNoReport, printable.Lines(strings.TrimPrefix(text, "rt-site: ")))
		}
		return fmt.Errorf("the process that makes the report: %w: %s", err, printable.Lines(text))
	}
	return nil
}

// limited writes so many bytes. A write of more is an error.
type limited struct {
	to     io.Writer
	left   int
	isFull bool
}

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > l.left {
		l.isFull = true
		return 0, errors.New("the output is too large")
	}
	l.left -= len(b)
	return l.to.Write(b)
}
