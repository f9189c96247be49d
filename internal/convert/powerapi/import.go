package powerapi

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/spool"
)

// source is what the records of imported reports are called.
const source = "powerapi"

// Import keeps reports with the runs that they are about, which trackers have
// made. Of the others it makes a run of each job and sensor that they name, and of a
// sensor that names no job one run. What is told of the node goes into all runs of
// its sensor. The reports are kept with the runs as they came, and what they counted
// of energy and events is in the readings of the runs that are made.
func Import(dir string, into []spool.Entry, name string, r io.Reader, warn func(format string, args ...any)) ([]string, error) {
	join, err := newJoin(dir, into)
	if err != nil {
		return nil, err
	}
	im := importer{dir: dir, name: name, warn: warn, join: join, sensors: map[string]*sensor{}}
	for report, err := range decode(name, r) {
		if err == nil {
			err = im.add(report)
		}
		if err != nil {
			im.failed = append(im.failed, err)
			if len(im.failed) >= maxBadReports {
				im.failed = append(im.failed, errors.New("and no more is read"))
				break
			}
		}
	}
	if im.reports == 0 {
		return nil, errors.Join(append(im.failed, errors.New("it holds no report of PowerAPI"))...)
	}
	made, err := im.write()
	return made, errors.Join(append(im.failed, err)...)
}

// maxBadReports are named before a file is given up.
const maxBadReports = 20

// decodePowerAPI reads JSON, or CSV of a group that is called like the file.
func decode(name string, r io.Reader) iter.Seq2[powerapi.Report, error] {
	text := bufio.NewReader(r)
	for {
		b, err := text.Peek(1)
		if err != nil || !strings.ContainsRune(" \t\r\n", rune(b[0])) {
			if err == nil && b[0] != '{' {
				group := filepath.Base(name)
				return powerapi.DecodeCSV(text, strings.TrimSuffix(group, filepath.Ext(group)))
			}
			return powerapi.Decoder{}.Decode(text)
		}
		_, _ = text.Discard(1) // it was there
	}
}

type importer struct {
	dir, name string // of the spool and of the file
	warn      func(format string, args ...any)
	join      *join
	sensors   map[string]*sensor // with what no run has taken
	left      []powerapi.Report  // the same, where --run names the runs
	reports   int
	failed    []error
}

// sensor has the reports of one node.
type sensor struct {
	name string
	jobs map[target]bool // whole jobs
	all  []*targeted
}

// targeted is a report and whom it is about; job is nobody's for the node.
type targeted struct {
	job    target
	part   bool // of the job, not all of it
	kept   bool // with some run
	report powerapi.Report
}

func (t *targeted) time() time.Time { return t.report.Head().Time }

func (im *importer) add(report powerapi.Report) error {
	im.reports++
	taken, err := im.join.take(report)
	switch {
	case err != nil || taken:
		return err
	case im.join.named:
		im.left = append(im.left, report)
		return nil
	}
	head := report.Head()
	s := im.sensors[head.Sensor]
	if s == nil {
		s = &sensor{name: head.Sensor, jobs: map[target]bool{}}
		im.sensors[head.Sensor] = s
	}
	seen := map[target]bool{}
	for _, name := range targetsOf(report) {
		t, isJob := parseTarget(name) // else it is of the node, or of what is no job
		if isJob {
			s.jobs[t.job()] = true
		} else {
			t = target{}
		}
		if job := t.job(); !seen[job] { // it is kept once, whichever steps it tells of
			seen[job] = true
			s.all = append(s.all, &targeted{job: job, part: t.part != "", report: report})
		}
	}
	return nil
}

func (im *importer) write() ([]string, error) {
	if im.join.named && len(im.left) == im.reports {
		return nil, im.join.none(im.left)
	}
	err := im.join.write(im.name, im.warn)
	if n := len(im.left); n > 0 {
		im.warn("%s: %d other reports are of another time or of other jobs, and are not kept", im.name, n)
	}
	var made []string
	failed := []error{err}
	for _, sensor := range slices.Sorted(maps.Keys(im.sensors)) {
		paths, err := im.writeSensor(im.sensors[sensor])
		made, failed = append(made, paths...), append(failed, err)
	}
	return made, errors.Join(failed...)
}
