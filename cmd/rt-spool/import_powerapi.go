package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/spool"
)

// powerapiSource is what the records of imported reports are called.
const powerapiSource = "powerapi"

// importPowerAPI keeps reports with the runs that they are about, which trackers have
// made. Of the others it makes a run of each job and sensor that they name, and of a
// sensor that names no job one run. What is told of the node goes into all runs of
// its sensor. The reports are kept with the runs as they came, and what they counted
// of energy and events is in the readings of the runs that are made.
func importPowerAPI(to importTarget, name string, r io.Reader) ([]string, error) {
	join, err := newPowerapiJoin(to)
	if err != nil {
		return nil, err
	}
	im := powerapiImport{join: join, sensors: map[string]*powerapiSensor{}}
	for report, err := range decodePowerAPI(name, r) {
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
	made, err := im.write(to, name)
	return made, errors.Join(append(im.failed, err)...)
}

// maxBadReports are named before a file is given up.
const maxBadReports = 20

// decodePowerAPI reads JSON, or CSV of a group that is called like the file.
func decodePowerAPI(name string, r io.Reader) iter.Seq2[powerapi.Report, error] {
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

type powerapiImport struct {
	join    *powerapiJoin
	sensors map[string]*powerapiSensor // with what no run has taken
	left    []powerapi.Report          // the same, where --run names the runs
	reports int
	failed  []error
}

// powerapiSensor has the reports of one node.
type powerapiSensor struct {
	jobs map[powerapiTarget]bool // whole jobs
	all  []targeted
}

// targeted is a report and whom it is about; job is nobody's for the node.
type targeted struct {
	job    powerapiTarget
	part   bool // of the job, not all of it
	report powerapi.Report
}

func (im *powerapiImport) add(report powerapi.Report) error {
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
		s = &powerapiSensor{jobs: map[powerapiTarget]bool{}}
		im.sensors[head.Sensor] = s
	}
	told := map[powerapiTarget]bool{}
	for _, name := range targetsOf(report) {
		t, isJob := parseTarget(name) // else it is of the node, or of what is no job
		if isJob {
			s.jobs[t.job()] = true
		} else {
			t = powerapiTarget{}
		}
		if job := t.job(); !told[job] { // it is kept once, whichever steps it tells of
			told[job] = true
			s.all = append(s.all, targeted{job, t.part != "", report})
		}
	}
	return nil
}

func (im *powerapiImport) write(to importTarget, name string) ([]string, error) {
	if im.join.named && len(im.left) == im.reports {
		return nil, im.join.none(im.left)
	}
	err := im.join.write(name, to.warn)
	if n := len(im.left); n > 0 {
		fmt.Fprintf(to.warn, "rt-spool: import: %s: %d other reports are of another time or of other jobs, and are not kept\n", name, n)
	}
	var made []string
	for _, sensor := range slices.Sorted(maps.Keys(im.sensors)) {
		s := im.sensors[sensor]
		slices.SortStableFunc(s.all, func(a, b targeted) int { return a.report.Head().Time.Compare(b.report.Head().Time) })
		jobs := slices.SortedFunc(maps.Keys(s.jobs), func(a, b powerapiTarget) int { return strings.Compare(a.String(), b.String()) })
		if len(jobs) == 0 && im.join.nodes[sensor] {
			fmt.Fprintf(to.warn, "rt-spool: import: %s: %d other reports of %s are of times without a run, and are not kept\n", name, len(s.all), sensor)
			continue
		}
		if len(jobs) == 0 {
			jobs = []powerapiTarget{{}}
		}
		for _, job := range jobs {
			path, failed := s.writeRun(to.dir, name, sensor, job)
			if errors.Is(failed, spool.ErrExists) {
				fmt.Fprintf(to.warn, "rt-spool: import: %s: these reports are in the spool already, as %s, which stays as it is\n", name, path)
				continue
			}
			if failed != nil {
				return made, errors.Join(err, fmt.Errorf("%s on %s: %w", job, sensor, failed))
			}
			made = append(made, path)
		}
	}
	return made, err
}

func (s *powerapiSensor) writeRun(dir, name, sensor string, job powerapiTarget) (string, error) {
	var of []targeted
	for _, t := range s.all {
		if t.job == job || t.job == (powerapiTarget{}) {
			of = append(of, t)
		}
	}
	counted := newPowerapiCounters(of)
	run := rt.Run{Node: sensor, Start: counted.start, End: of[len(of)-1].report.Head().Time, TrackerVersion: powerapiSource, State: rt.StateRunning}
	if job.label != "" {
		job.identify(&run)
	}
	w, err := spool.Create(dir, run, rt.Host{HostName: sensor}, spool.Options{})
	if err != nil {
		return filepath.Join(dir, run.FileStem()+".db"), err
	}
	w.Event(rt.Event{Time: run.End, Kind: "tracker", Name: "import", Status: "ok", Detail: "imported from PowerAPI's reports in " + name})
	err = w.Put(counted.snapshot(counted.start, false))
	for i := 0; i < len(of) && err == nil; {
		at := of[i].report.Head().Time
		for ; i < len(of) && err == nil && of[i].report.Head().Time.Equal(at); i++ {
			counted.add(of[i])
			if i == 0 || of[i].report != of[i-1].report {
				err = keepReport(w, of[i].report)
			}
		}
		if err == nil {
			err = w.Put(counted.snapshot(at, i == len(of)))
		}
	}
	run.State, run.Outcome = rt.StateEnded, rt.OutcomeUnknown
	if err == nil {
		err = w.End(run)
	}
	if err != nil {
		return "", errors.Join(err, discardRun(w))
	}
	return w.Path(), nil
}

// keepReport keeps a report with the run.
func keepReport(w *spool.Writer, report powerapi.Report) error {
	rec, err := powerapiRecord(report)
	if err != nil {
		return err
	}
	return w.Record(rec)
}

func powerapiRecord(report powerapi.Report) (rt.Record, error) {
	line, err := report.AppendJSON(nil, powerapi.ISO)
	if err != nil {
		return rt.Record{}, err
	}
	return rt.Record{Time: report.Head().Time.UnixNano(), Source: powerapiSource, Body: line[:len(line)-1]}, nil
}
