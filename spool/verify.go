package spool

import (
	"context"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
)

// Problem is an error in a spool file.
type Problem struct {
	What string // one sentence
}

// maxProblems is the maximum number of problems that Verify returns.
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
	if len(v.problems) == 0 { // the checks below would only report the same damage again
		v.elements(ctx)
		v.snapshots(ctx)
		v.batches()
		v.ending()
		v.log()
	}
	return v.problems
}

// Readable returns how many snapshots can be read before the first one that cannot, and the
// number of the last of them.
func Readable(ctx context.Context, r *Reader) (n, last int64) {
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
	// SQLite reports each damaged page. The first lines show the place.
	for _, line := range found[:min(len(found), maxIntegrity)] {
		v.add("the database is damaged: %s", line)
	}
	if more := len(found) - maxIntegrity; more > 0 {
		v.add("the database is damaged: %d further lines of SQLite's integrity_check", more)
	}
}

// maxIntegrity bounds the lines of SQLite that Verify reports.
const maxIntegrity = 3

// elements looks for values whose list element or snapshot does not exist.
func (v *verifier) elements(ctx context.Context) {
	sql := "SELECT 'snapshot', seq FROM core_ticks WHERE seq NOT IN (SELECT seq FROM snapshot)"
	for _, l := range storedLists {
		sql += fmt.Sprintf(" UNION SELECT '%[1]s', %[1]s FROM %[2]s WHERE %[1]s NOT IN (SELECT id FROM %[1]s)"+
			" UNION SELECT 'snapshot', seq FROM %[2]s WHERE seq NOT IN (SELECT seq FROM snapshot)", l.table(), l.values())
	}
	err := v.r.db.stream(ctx, sql, nil,
		func(row []driver.Value) error {
			v.add("there are readings of %v %v, which is in no table", row[0], row[1])
			return nil
		})
	if err != nil {
		v.add("the lists cannot be read: %v", err)
	}
}

// snapshots checks that the numbers ascend, that only thinned snapshots leave gaps, and that time
// does not go back. It decodes the CPUs and devices of every row.
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

// batches checks that the sealed batches follow each other from snapshot 1 on.
func (v *verifier) batches() {
	list, err := v.r.Delivery().Batches()
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
