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

	"github.com/resource-tracker/rt/spool"
)

// source is the source of the records of imported reports.
const source = "powerapi"

// Import stores reports with the runs of trackers that they are about. From the other reports it makes a run for each
// job and sensor, and one run for a sensor that names no job. Reports of the node go into all runs of their sensor.
// The reports are stored unchanged; the readings of the new runs have the energy and the events that the reports
// counted.
//
// dir is the spool, into the runs of --run, name the name of the file that r reads. The result
// has the paths of the new runs, next to an error too. warn reports what is left out.
func Import(dir string, limits *spool.ImportLimits, into []spool.Entry, name string, r io.Reader, warn func(format string, args ...any)) ([]string, error) {
	join, err := newJoin(dir, into)
	if err != nil {
		return nil, err
	}
	im := importer{dir: dir, limits: limits, name: name, warn: warn, join: join, sensors: map[string]*sensor{}}
	for report, err := range decode(name, r) {
		if err == nil {
			err = im.addReport(report)
		}
		if err != nil {
			im.failed = append(im.failed, err)
			if len(im.failed) >= maxBadReports {
				im.failed = append(im.failed, errors.New("and the rest was not read"))
				break
			}
		}
	}
	if im.reports == 0 {
		return nil, errors.Join(append(im.failed, errors.New("it has no report of PowerAPI"))...)
	}
	made, err := im.write()
	return made, errors.Join(append(im.failed, err)...)
}

// maxBadReports bounds the malformed reports of a file that are read.
const maxBadReports = 20

// decode reads JSON, or CSV of the group that the file is named after.
func decode(name string, r io.Reader) iter.Seq2[Report, error] {
	text := bufio.NewReader(r)
	for {
		b, err := text.Peek(1)
		if err != nil || !strings.ContainsRune(" \t\r\n", rune(b[0])) {
			if err == nil && b[0] != '{' {
				group := filepath.Base(name)
				return DecodeCSV(text, strings.TrimSuffix(group, filepath.Ext(group)))
			}
			return DecodeJSON(text)
		}
		_, _ = text.Discard(1) // Peek has read it
	}
}

type importer struct {
	dir, name string // of the spool and of the file
	limits    *spool.ImportLimits
	warn      func(format string, args ...any)
	join      *join
	sensors   map[string]*sensor // with the reports that no run took
	left      []Report           // the same if --run names the runs
	reports   int
	failed    []error
}

// sensor has the reports of one node.
type sensor struct {
	name string
	jobs map[target]bool // whole jobs
	all  []*targeted
}

// targeted is a report and the job that it is about; job is zero for the node.
type targeted struct {
	job    target
	part   bool // it is about a part of the job
	kept   bool // it is stored with a run
	report Report
}

func (t *targeted) time() time.Time { return t.report.Head().Time }

func (im *importer) addReport(report Report) error {
	im.reports++
	taken, err := im.join.takeReport(report)
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
		t, isJob := parseTarget(name) // otherwise it is the node, or a cgroup that is not a job's
		if isJob {
			s.jobs[t.job()] = true
		} else {
			t = target{}
		}
		if job := t.job(); !seen[job] { // the report is stored once, however many steps it names
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
		im.warn("%s: %d other reports are of another time or of other jobs, and are not stored", im.name, n)
	}
	var made []string
	failed := []error{err}
	for _, sensor := range slices.Sorted(maps.Keys(im.sensors)) {
		paths, err := im.writeSensor(im.sensors[sensor])
		made, failed = append(made, paths...), append(failed, err)
	}
	return made, errors.Join(failed...)
}
