package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// ourReading is one reading and the CSV row of the interval that it ends; the first has none.
type ourReading struct {
	snapshot rt.Snapshot
	row      map[string]float64
}

// readOurs reads the CSV as it was printed, and from the spool what the CSV does not have.
func readOurs(ctx context.Context, csvPath, spoolDir string) ([]ourReading, error) {
	rows, err := readCSV(csvPath)
	if err != nil {
		return nil, err
	}
	entries, err := spool.List(spoolDir)
	if err != nil {
		return nil, err
	}
	if len(entries) != 1 || entries[0].Err != nil {
		return nil, fmt.Errorf("the spool in %s: %+v; want one run", spoolDir, entries)
	}
	r, err := spool.Open(entries[0].Path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []ourReading
	for s, err := range r.Snapshots(ctx, 0, math.MaxInt64) {
		if err != nil {
			return nil, err
		}
		if s.Reason == rt.ReasonStop {
			break // not at the common instants
		}
		o := ourReading{snapshot: *s, row: rows[s.Wall/1e9]}
		o.snapshot.Disks = append([]rt.DiskReading(nil), s.Disks...)
		o.snapshot.Mounts = append([]rt.MountReading(nil), s.Mounts...)
		all = append(all, o)
	}
	return all, nil
}

// readCSV returns the rows by their timestamps.
func readCSV(path string) (map[int64]map[string]float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil || len(lines) == 0 {
		return nil, fmt.Errorf("parse %s: %d lines, %v", path, len(lines), err)
	}
	all := map[int64]map[string]float64{}
	for _, l := range lines[1:] {
		row := map[string]float64{}
		for i, name := range lines[0] {
			if l[i] == "" {
				continue
			}
			if row[name], err = strconv.ParseFloat(l[i], 64); err != nil {
				return nil, fmt.Errorf("parse %s, column %s: %w", path, name, err)
			}
		}
		if at := int64(row["timestamp"]); all[at] == nil { // the last row, of the end, may share its second
			all[at] = row
		}
	}
	return all, nil
}

// pair is one interval as both trackers recorded it.
type pair struct {
	theirs, theirsBefore *theirReading
	ours, oursBefore     *ourReading
	secs                 float64       // length of our interval
	skew                 time.Duration // the sum of the differences at both ends
}

// match pairs each of their intervals with our interval of the closest begin and end, less than a quarter of the
// interval apart.
func match(theirs []theirReading, ours []ourReading, interval time.Duration) []pair {
	nearest := func(t *theirReading) int {
		best := -1
		for i := range ours {
			if d := t.away(ours[i].snapshot.Wall); d < interval/4 && (best < 0 || d < t.away(ours[best].snapshot.Wall)) {
				best = i
			}
		}
		return best
	}
	var pairs []pair
	for i := 1; i < len(theirs); i++ {
		a, b := nearest(&theirs[i-1]), nearest(&theirs[i])
		if a < 0 || b != a+1 || ours[b].row == nil {
			continue
		}
		before, after := &ours[a].snapshot, &ours[b].snapshot
		pairs = append(pairs, pair{
			theirs: &theirs[i], theirsBefore: &theirs[i-1], ours: &ours[b], oursBefore: &ours[a],
			secs: float64(after.Boot-before.Boot) / 1e9,
			skew: theirs[i-1].away(before.Wall) + theirs[i].away(after.Wall),
		})
	}
	return pairs
}
