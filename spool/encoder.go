package spool

import (
	"strings"

	"github.com/resource-tracker/rt"
)

// keyframeEvery is how many snapshots lie between two keyframes: a reader that
// starts anywhere reads at most so many rows in vain, and a keyframe costs about
// twice a row.
const keyframeEvery = 128

// encoder turns snapshots into rows. What it remembers of the row before belongs
// to the transaction: begin keeps it, rollback gives it back.
type encoder struct {
	insert, insertKey *stmt
	dev               devices

	state  encoderState
	saved  encoderState
	cores  []core // of the row before
	next   []core
	row    []byte
	vector vector
}

type encoderState struct {
	seq      int64 // of the last row
	sinceKey int   // rows since the last keyframe
	total    sums
	devices  mark
}

func (e *encoder) prepare(c *conn) (err error) {
	columns := strings.Join(deltaColumns[:], ", ")
	e.insert, err = c.prepare("INSERT INTO snapshot_delta (seq, reason, job_phase, node_gpu_usage, core_ticks, " +
		columns + ") VALUES (" + placeholders(5+numCols) + ")")
	if err != nil {
		return err
	}
	e.insertKey, err = c.prepare("INSERT INTO keyframe (seq, device_row, gpu_row, " + columns + ") VALUES (" + placeholders(3+numCols) + ")")
	if err != nil {
		return err
	}
	return e.dev.prepare(c)
}

func (e *encoder) begin() {
	e.state.devices = e.dev.mark()
	e.saved = e.state
}

// rollback goes back to begin. The next row is a keyframe.
func (e *encoder) rollback() {
	e.state = e.saved
	e.state.sinceKey = keyframeEvery
	e.dev.rollback(e.state.devices)
}

// put writes one snapshot as the next row. The rows are numbered here: where some
// had to be thinned before they were stored, the numbers have no gap all the same.
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
	args := e.insert.args
	args[0].Value, args[1].Value, args[2].Value = st.seq, int64(s.Reason), int64(s.Job.Phase)
	args[3].Value, args[4].Value = optValue(s.Node.GPUUsage), nil
	e.next = loadCores(e.next, s.CPUs)
	if len(e.next) > 0 {
		e.row = appendCores(e.row[:0], e.cores, e.next)
		args[4].Value = e.row
	}
	e.cores, e.next = e.next, e.cores
	e.vector.load(s)
	st.total.next(&e.vector, args[5:])
	if err := e.insert.run(); err != nil {
		return err
	}
	return e.dev.put(st.seq, keyframe, s)
}

func (e *encoder) putKeyframe() error {
	args := e.insertKey.args
	e.insertKey.bindFrom(0, e.state.seq, e.dev.counts[0].row, e.dev.counts[1].row)
	for i, n := range e.state.total {
		args[3+i].Value = toUnit(n, deltaUnit[i])
	}
	return e.insertKey.run()
}
