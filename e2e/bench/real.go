package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt/spool"
)

// warm is how long a program runs before it is measured. A tracker releases the memory of its start after 9 s,
// and the pages that its first readings need 10 s later; what follows is what it costs for the rest of the job.
const warm = 40 * time.Second

// realJob measures the tracker of a real job at 1 Hz next to its floor and to other
// programs, all in the same seconds, and after that the tracker at its default interval.
func realJob(bin, dir string) (rows []row, err error) {
	c, err := newCluster(bin, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	rows, err = atOneHertz(c, bin, dir)
	if err != nil {
		return nil, err
	}
	more, err := atDefault(c, rows[0].floor)
	return append(rows, more...), err
}

func atOneHertz(c cluster, bin, dir string) ([]row, error) {
	j, err := c.start(4, "1s")
	if err != nil {
		return nil, err
	}
	floor, err := startFloor(dir, j)
	if err != nil {
		return nil, err
	}
	defer floor.stop()
	node, err := startFloor(dir, nil)
	if err != nil {
		return nil, err
	}
	defer node.stop()
	node.name += " of the node"
	alone, err := startPeer("resource-tracker of the node", filepath.Join(bin, "resource-tracker"), "--interval", "1", "-o", "/dev/null")
	if err != nil {
		return nil, err
	}
	defer alone.stop()
	peers := append([]*peer{floor, node, alone}, others(j)...)
	pids := []int{j.tracker}
	for i, p := range peers {
		pids = append(pids, p.process.Pid)
		if i > 2 {
			defer p.stop()
		}
	}
	time.Sleep(warm)
	uses, err := observe(span, false, pids...)
	if err != nil {
		return nil, err
	}
	if err := c.end(j); err != nil {
		return nil, err
	}
	tracker, least := uses[0], uses[1].perSecond()
	taken, err := readingsOf(c.spool(), j, tracker)
	if err != nil {
		return nil, err
	}
	per := tracker.cpu / taken
	rows := []row{
		{what: "rt-tracker, real job of 4 processes, 1 Hz, per reading", figure: per, unit: "us", budget: 2.8 * least, floor: least},
		{what: "  readings", figure: taken / tracker.seconds, unit: "/s"},
		{what: "  context switches per reading", figure: tracker.switches / taken, unit: ""},
		{what: "  resident", figure: tracker.resident, unit: "MiB", budget: 8.5},
	}
	for i, p := range peers {
		u := uses[i+1]
		budget := 0.0
		if p == alone {
			budget = 7
		}
		rows = append(rows, row{what: p.name, figure: u.perSecond(), unit: "us/s", floor: least},
			row{what: "  resident", figure: u.resident, unit: "MiB", budget: budget})
		if p.name[:2] == "Py" {
			rows = append(rows, row{what: "  rt-tracker as a part of it", figure: per / u.perSecond(), unit: "x", budget: 1})
		}
	}
	return rows, nil
}

// atDefault measures the tracker at an interval of 10 s, and whether it runs between its
// readings. least is the CPU time of the C program at 1 Hz, in us/s.
func atDefault(c cluster, least float64) ([]row, error) {
	const interval = 10 * time.Second
	j, err := c.start(4, interval.String())
	if err != nil {
		return nil, err
	}
	time.Sleep(warm)
	whole := max(2*span.Truncate(interval), interval)
	uses, err := observe(whole, true, j.tracker)
	if err != nil {
		return nil, err
	}
	if err := c.end(j); err != nil {
		return nil, err
	}
	u := uses[0]
	taken, err := readingsOf(c.spool(), j, u)
	if err != nil {
		return nil, err
	}
	between := max(0, float64(u.bursts)-taken)
	return []row{
		{what: "rt-tracker, real job of 4 processes, every 10 s", figure: u.perSecond(), unit: "us/s", budget: 150, floor: least, planned: plannedC},
		{what: "  context switches per reading", figure: u.switches / taken, unit: ""},
		{what: fmt.Sprintf("  wake-ups between readings in %v", whole), figure: between, unit: "", zero: true},
		{what: "  resident", figure: u.resident, unit: "MiB", budget: 8.5},
	}, nil
}

// manyJobs measures 64 trackers on one node. Its floor is the C program at 1 Hz with the first job alone: the files of
// a node take longer with more processes.
func manyJobs(bin, dir string) (rows []row, err error) {
	const jobs = 64
	c, err := newCluster(bin, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	first, err := c.start(4, "10s")
	if err != nil {
		return nil, err
	}
	floor, err := observeFloor(dir, first)
	if err != nil {
		return nil, err
	}
	running, pids := []*job{first}, []int{first.tracker}
	for len(running) < jobs {
		j, err := c.start(4, "10s")
		if err != nil {
			return nil, err
		}
		running, pids = append(running, j), append(pids, j.tracker)
	}
	time.Sleep(warm)
	uses, err := observe(max(2*span.Truncate(10*time.Second), 10*time.Second), false, pids...)
	if err != nil {
		return nil, err
	}
	sum := together(uses)
	for _, j := range running {
		if err := c.end(j); err != nil {
			return nil, err
		}
	}
	return []row{
		{what: fmt.Sprintf("%d jobs on one node, every 10 s, together", jobs), figure: sum.perSecond() / 1e4, unit: "% of a core", budget: 0.5, floor: floor / 1e4, planned: plannedC / 1e4},
		{what: "  one of them", figure: sum.perSecond() / jobs, unit: "us/s"},
		{what: "  context switches of all", figure: sum.switchesPerSecond(), unit: "/s"},
		{what: "  largest resident", figure: sum.resident, unit: "MiB"},
		{what: "C, with one job", figure: floor, unit: "us/s", floor: floor},
	}, nil
}

// observeFloor returns the CPU time of the C program at 1 Hz, in us/s.
func observeFloor(dir string, j *job) (float64, error) {
	floor, err := startFloor(dir, j)
	if err != nil {
		return 0, err
	}
	defer floor.stop()
	uses, err := observe(span, false, floor.process.Pid)
	if err != nil {
		return 0, err
	}
	return uses[0].perSecond(), nil
}

// manyProcesses measures the trackers of a job of 1,000 processes and of one of 10 in the
// same seconds.
func manyProcesses(bin, dir string) (rows []row, err error) {
	c, err := newCluster(bin, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	few, err := c.start(10, "10s")
	if err != nil {
		return nil, err
	}
	many, err := c.start(1000, "10s")
	if err != nil {
		return nil, err
	}
	time.Sleep(warm)
	uses, err := observe(max(2*span.Truncate(10*time.Second), 10*time.Second), false, few.tracker, many.tracker)
	if err != nil {
		return nil, err
	}
	return []row{
		{what: "a job of 10 processes, every 10 s", figure: uses[0].perSecond(), unit: "us/s"},
		{what: "a job of 1,000 processes, every 10 s", figure: uses[1].perSecond(), unit: "us/s", budget: 2 * uses[0].perSecond(), floor: uses[0].perSecond()},
		{what: "  resident", figure: uses[1].resident, unit: "MiB"},
	}, errors.Join(c.end(few), c.end(many))
}

// readingsOf counts the readings of an ended job in the time of a measurement.
func readingsOf(spoolDir string, j *job, u use) (n float64, err error) {
	files, err := filepath.Glob(filepath.Join(spoolDir, fmt.Sprintf("job-%d-*.db", j.id)))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("job %d has no spool file in %s", j.id, spoolDir)
	}
	newest := files[len(files)-1] // another part may have had a job of this number
	r, err := spool.Open(newest)
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
	if n == 0 {
		return 0, fmt.Errorf("%s has no reading in %.0f s", newest, u.seconds)
	}
	return n, nil
}
