package spool

import (
	"database/sql/driver"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool/internal/codec"
)

// keyframeEvery is the number of snapshots from one keyframe to the next. A reader that
// starts at any snapshot skips at most this many rows. A keyframe takes as much room as two
// rows.
const keyframeEvery = 128

// encoder converts snapshots to rows. Its state, which describes the previous row, belongs to
// the transaction: begin saves it and rollback restores it.
type encoder struct {
	insert    [numTables]*stmt
	insertKey *stmt
	dev       devices

	state  encoderState
	saved  encoderState
	cores  []codec.Core // of the previous row
	next   []codec.Core
	row    []byte
	vector vector
}

type encoderState struct {
	seq      int64 // of the last row
	sinceKey int   // rows since the last keyframe
	total    sums
	read     [numCols]bool // in the last row
	devices  mark
}

func (e *encoder) prepare(c *conn) (err error) {
	for i, table := range deltaTables {
		columns := slices.Concat(headColumns[i], columnNames(tableColumns[i]))
		e.insert[i], err = c.prepare("INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + placeholders(len(columns)) + ")")
		if err != nil {
			return err
		}
	}
	e.insertKey, err = c.prepare("INSERT INTO keyframe (" + keyframeColumns + ") VALUES (" + placeholders(keyframeHead+numSums) + ")")
	e.dev.prepare(c)
	return err
}

func (e *encoder) begin() {
	e.state.devices = e.dev.mark()
	e.saved = e.state
}

// rollback restores the state at begin. The next row is a keyframe.
func (e *encoder) rollback() {
	e.state = e.saved
	e.state.sinceKey = keyframeEvery
	e.dev.rollback(e.state.devices)
}

// put writes one snapshot as the next row. The rows are numbered here, so that snapshots that
// were thinned in memory leave no gap.
func (e *encoder) put(s *rt.Snapshot) error {
	st := &e.state
	st.seq++
	st.sinceKey++
	keyframe := st.seq == 1 || st.sinceKey >= keyframeEvery
	if keyframe {
		st.sinceKey = 0
		e.cores = e.cores[:0]
	}
	if keyframe && st.seq > 1 {
		if err := e.putKeyframe(); err != nil {
			return err
		}
	}
	if err := e.putScalars(s, keyframe); err != nil {
		return err
	}
	return e.dev.put(st.seq, keyframe, s)
}

// putScalars writes a row to each table in which a figure changed.
func (e *encoder) putScalars(s *rt.Snapshot, keyframe bool) error {
	st := &e.state
	e.vector.load(s)
	for i, insert := range e.insert {
		insert.args[0].Value = st.seq
		if i == inMoving {
			insert.bindFrom(1, int64(s.Reason), int64(s.Job.Phase), e.coreTicks(s))
		}
		changed := st.total.next(tableColumns[i], &e.vector, &st.read, insert.args[len(headColumns[i]):])
		if !changed && !keyframe && i != inMoving {
			continue
		}
		if err := insert.run(); err != nil {
			return err
		}
	}
	return nil
}

// coreTicks encodes the CPUs, NULL for none.
func (e *encoder) coreTicks(s *rt.Snapshot) driver.Value {
	e.next = codec.Load(e.next, s.CPUs)
	defer func() { e.cores, e.next = e.next, e.cores }()
	if len(e.next) == 0 {
		return nil
	}
	e.row = codec.Append(e.row[:0], e.cores, e.next)
	return e.row
}

func (e *encoder) putKeyframe() error {
	args := e.insertKey.args
	args[0].Value = e.state.seq
	for i, count := range e.dev.counts {
		args[1+i].Value = count.row
	}
	for i, n := range e.state.total[:numSums] {
		args[keyframeHead+i].Value = toUnit(n, deltaColumns[i].unit)
	}
	return e.insertKey.run()
}
