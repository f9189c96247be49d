package spool

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// Problem is an error in a spool file.
type Problem struct {
	What string // one sentence
}

// maxProblems bounds what Verify reports of one file.
const maxProblems = 100

// Verify checks the integrity of the database and the invariants of DESIGN.md. It returns no
// problem for a valid file.
func (r *Reader) Verify(ctx context.Context) []Problem {
	v := &verifier{r: r}
	held, err := r.db.hold() // a tracker may be writing
	if err != nil {
		v.add("the database cannot be read: %v", err)
		return v.problems
	}
	defer held.Close()
	v.integrity(ctx)
	if len(v.problems) == 0 { // further checks would only repeat it
		v.devices(ctx)
		v.snapshots(ctx)
		v.keyframes(ctx)
		v.batches()
		v.ending()
		v.log()
	}
	return v.problems
}

// Readable returns how many snapshots can be read before the first one that cannot, and the
// number of the last of them.
func (r *Reader) Readable(ctx context.Context) (n, last int64) {
	for s, err := range r.Snapshots(ctx, 1, 0) {
		if err != nil {
			break
		}
		n, last = n+1, s.Seq
	}
	return n, last
}

type verifier struct {
	r        *Reader
	problems []Problem
	last     int64 // number of the last snapshot
}

func (v *verifier) add(format string, args ...any) {
	if len(v.problems) < maxProblems {
		v.problems = append(v.problems, Problem{fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) integrity(ctx context.Context) {
	var found []string // a line each
	err := v.r.db.stream(ctx, "PRAGMA integrity_check(100)", nil, func(row []driver.Value) error {
		if text, _ := row[0].(string); text != "ok" {
			found = append(found, strings.Split(strings.TrimSpace(text), "\n")...)
		}
		return nil
	})
	if err != nil {
		v.add("the database cannot be checked: %v", err)
	}
	// SQLite reports each page of the damage in its own terms: the first lines show the place.
	for _, line := range found[:min(len(found), maxIntegrity)] {
		v.add("the database is damaged: %s", line)
	}
	if more := len(found) - maxIntegrity; more > 0 {
		v.add("the database is damaged: %d further lines of SQLite's integrity_check", more)
	}
}

// maxIntegrity bounds the lines of SQLite that Verify reports.
const maxIntegrity = 3

// devices looks for readings without a device and for figures without a snapshot.
func (v *verifier) devices(ctx context.Context) {
	sql := `
		SELECT 'device', device FROM device_reading WHERE device NOT IN
			(SELECT id FROM net UNION ALL SELECT id FROM disk UNION ALL SELECT id FROM mount)
		UNION SELECT 'gpu', gpu FROM gpu_reading WHERE gpu NOT IN (SELECT id FROM gpu)
		UNION SELECT 'step', step FROM step_value WHERE step NOT IN (SELECT id FROM step)
		UNION SELECT 'process', process FROM process_value WHERE process NOT IN (SELECT id FROM process)
		UNION SELECT 'counter', device FROM counter_value WHERE device NOT IN (SELECT id FROM gpu_process
			UNION ALL SELECT id FROM fabric UNION ALL SELECT id FROM remote_fs UNION ALL SELECT id FROM energy
			UNION ALL SELECT id FROM perf)
		UNION SELECT 'snapshot', seq FROM (SELECT seq FROM steady_delta UNION SELECT seq FROM tree_delta
			UNION SELECT seq FROM gpu_delta) WHERE seq NOT IN (SELECT seq FROM snapshot_delta)`
	err := v.r.db.stream(ctx, sql, nil,
		func(row []driver.Value) error {
			v.add("there are readings of %v %v, which is in no table", row[0], row[1])
			return nil
		})
	if err != nil {
		v.add("the devices cannot be read: %v", err)
	}
}

// snapshots reads every row and checks that the numbers ascend, that gaps are those of thinned
// snapshots, that time does not go back, and that CPUs and devices can be decoded.
func (v *verifier) snapshots(ctx context.Context) {
	var boot, missing int64
	for s, err := range v.r.Snapshots(ctx, 1, 0) {
		if err != nil {
			v.add("the snapshots cannot be read after number %d: %v", v.last, err)
			return
		}
		missing += s.Seq - v.last - 1
		if s.Boot < boot {
			v.add("snapshot %d was taken before %d, by the boot clock", s.Seq, v.last)
		}
		if s.Reason > rt.ReasonStop || s.Job.Phase > rt.JobGone {
			v.add("snapshot %d has reason %d and job phase %d, which is not valid", s.Seq, s.Reason, s.Job.Phase)
		}
		v.last, boot = s.Seq, s.Boot
	}
	switch gone, err := thinned(v.r.db); {
	case err != nil:
		v.add("the ledger cannot be read: %v", err)
	case gone != missing:
		v.add("%d numbers have no snapshot, but %d snapshots were thinned according to the ledger", missing, gone)
	}
}

// keyframes compares each one with the sums of the rows before it.
func (v *verifier) keyframes(ctx context.Context) {
	it := &iterator{of: selection{columns: &tableColumns}}
	defer it.close()
	if err := it.open(ctx, v.r.db, 1, v.last); err != nil {
		v.add("the snapshots cannot be read: %v", err)
		return
	}
	err := v.r.db.stream(ctx, "SELECT "+keyframeColumns+" FROM keyframe ORDER BY seq", nil, func(row []driver.Value) error {
		var key keyframe
		var kept sums
		if err := key.scan(row, &kept); err != nil {
			return err
		}
		next := &it.tables[inMoving].seq
		for *next != 0 && *next < key.seq {
			if err := it.next(); err != nil {
				return err
			}
		}
		if key.seq < 2 || key.seq != *next {
			v.add("there is a keyframe at %d, but no snapshot", key.seq)
			return nil
		}
		if !slices.Equal(kept[:numSums], it.total[:numSums]) {
			v.add("keyframe %d differs from the sum of the snapshots before it", key.seq)
		}
		return ctx.Err()
	})
	if err != nil {
		v.add("the keyframes cannot be read: %v", err)
	}
}

// batches checks that the sealed batches follow each other from snapshot 1 on.
func (v *verifier) batches() {
	list, err := v.r.Batches()
	if err != nil {
		v.add("the ledger of batches cannot be read: %v", err)
		return
	}
	last := int64(0)
	for i, b := range list {
		if b.Number != i+1 {
			v.add("batch %d is in position %d", b.Number, i+1)
		}
		if !follows(b, last) || b.LastSeq > v.last {
			v.add("batch %d holds the snapshots %d to %d, after one that ends at %d, with %d stored", b.Number, b.FirstSeq, b.LastSeq, last, v.last)
		}
		if len(b.SHA256) != 64 || b.Key == "" {
			v.add("batch %d has no checksum or no key", b.Number)
		}
		last = b.LastSeq
	}
	if v.r.run.State == rt.StateDelivered && last > 0 && last != v.last {
		v.add("the run is marked as delivered, but the batches end at %d of %d snapshots", last, v.last)
	}
}

// ending checks the run against its state.
func (v *verifier) ending() {
	run := &v.r.run
	switch run.State {
	case rt.StateRunning:
		if run.Outcome != rt.OutcomeNone {
			v.add("the run is running but has the outcome %q", run.Outcome)
		}
	case rt.StateEnded, rt.StateDelivered:
	default:
		v.add("the run is in the state %q, which is not valid", run.State)
	}
}
