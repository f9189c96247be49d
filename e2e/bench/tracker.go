package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/resource-tracker/rt/spool"
)

// warm is how long a tracker runs before it is measured. It releases the memory of its start after 9 s, and the pages
// of its first readings 10 s later. What follows is the cost for the rest of the job.
const warm = 20 * time.Second

// oneTracker measures the tracker of a job at 1 Hz, a C program that reads the same files, and the Python tracker of
// the node. All run in the same seconds.
func oneTracker(bin, dir string) (figures []figure, err error) {
	n, err := newNode(bin, dir, "tracker")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	j, err := n.startJob(4, time.Second)
	if err != nil {
		return nil, err
	}
	floor, err := startFloor(dir, j)
	if err != nil {
		return nil, err
	}
	defer floor.stop()
	pids := []int{j.tracker, floor.process.Pid}
	python, missing := startPython()
	if missing == nil {
		defer python.stop()
		pids = append(pids, python.process.Pid)
	}
	time.Sleep(warm)
	uses, err := observe(span, pids...)
	if err != nil {
		return nil, err
	}
	if err := n.close(); err != nil {
		return nil, err
	}
	readings, err := countReadings(n.spool(), j, uses[0])
	if err != nil {
		return nil, err
	}
	if readings == 0 {
		return nil, fmt.Errorf("the tracker took no reading in %.0f s", uses[0].seconds)
	}
	reading := uses[0].cpu / readings
	next := func(p *peer, u use) (ratio float64, from string) {
		return reading / u.perSecond(), fmt.Sprintf("%.0f us a reading; %s: %.0f us", reading, p.name, u.perSecond())
	}
	toC := figure{what: "rt-tracker at 1 Hz, next to C", unit: "x", limit: 3}
	toC.value, toC.from = next(floor, uses[1])
	toPython := figure{what: "rt-tracker at 1 Hz, next to Python", unit: "x", limit: 0.8}
	if missing != nil {
		toPython.unmeasured, toPython.from = true, missing.Error()
	} else {
		toPython.value, toPython.from = next(python, uses[2])
	}
	return []figure{toC, toPython}, nil
}

// manyTrackers measures the trackers of 64 jobs on one node, at the default interval.
func manyTrackers(bin, dir string) (figures []figure, err error) {
	const (
		jobs     = 64
		interval = 10 * time.Second
	)
	n, err := newNode(bin, dir, "many")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	var pids []int
	for range jobs {
		j, err := n.startJob(4, interval)
		if err != nil {
			return nil, err
		}
		pids = append(pids, j.tracker)
	}
	time.Sleep(warm)
	uses, err := observe(max(2*span.Truncate(interval), interval), pids...)
	if err != nil {
		return nil, err
	}
	sum := 0.0
	for _, u := range uses {
		sum += u.perSecond()
	}
	return []figure{{
		what: fmt.Sprintf("%d trackers every 10 s, together", jobs), value: sum / 1e4, unit: "% of a core", limit: 1,
		from: fmt.Sprintf("%.0f us/s each", sum/jobs),
	}}, nil
}

// hourOfReadings is how many readings a tracker takes in an hour: 60 in the first minute, then one every 10 s.
const hourOfReadings = 414.0

// resident measures the memory of a tracker that has taken the readings of an hour. It takes one every 100 ms, because
// what it keeps follows their number, not the time. From -for 1h on it runs in real time, in a job whose steps follow
// one another: a thousand in an hour.
func resident(bin, dir string) (figures []figure, err error) {
	realTime := span >= time.Hour
	interval, whole, enough := 100*time.Millisecond, 5*time.Minute, hourOfReadings
	if realTime {
		interval, whole, enough = 10*time.Second, span, math.Inf(1)
	}
	n, err := newNode(bin, dir, "resident")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	j, err := n.startJob(4, interval)
	if err != nil {
		return nil, err
	}
	begin, readings := time.Now(), 0.0
	var looks []float64 // MiB
	for readings < enough && time.Since(begin) < whole {
		if realTime {
			err = j.runStep(fmt.Sprint(len(looks)), "exec sleep 3")
		} else {
			time.Sleep(time.Second)
		}
		if err != nil {
			return nil, err
		}
		mib, err := memoryMiB(j.tracker, "RssAnon:")
		if err != nil {
			return nil, err
		}
		looks = append(looks, mib)
		readings, err = countReadings(n.spool(), j, use{begin: begin, seconds: time.Since(begin).Seconds()})
		if err != nil {
			return nil, err
		}
	}
	all, err := memoryMiB(j.tracker, "VmRSS:")
	most := slices.Max(looks[len(looks)/2:])
	return []figure{{
		what: "rt-tracker, memory of its own after an hour", value: most, unit: "MiB", limit: 10,
		from: fmt.Sprintf("%.0f readings in %.0f s; %.1f MiB with the program's file", readings, time.Since(begin).Seconds(), all),
	}}, err
}

// countReadings counts the readings of a job in the time of a measurement.
func countReadings(spoolDir string, j *job, u use) (n float64, err error) {
	files, err := filepath.Glob(filepath.Join(spoolDir, fmt.Sprintf("job-%d-*.db", j.id)))
	if err != nil || len(files) != 1 {
		return 0, fmt.Errorf("job %d has %d spool files in %s, not one", j.id, len(files), spoolDir)
	}
	r, err := spool.Open(files[0])
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for snap, err := range r.Scalars(context.Background(), 0, math.MaxInt64) {
		if err != nil {
			return 0, err
		}
		at := time.Unix(0, snap.Wall)
		if at.After(u.begin) && at.Before(u.begin.Add(time.Duration(u.seconds*1e9))) {
			n++
		}
	}
	return n, nil
}
