package spool

import (
	"errors"
	"fmt"
	"slices"

	"github.com/resource-tracker/rt"
)

// stretch is a range of snapshots. It begins at number first, which is 1 or has a keyframe,
// and ends before the keyframe at number end.
type stretch struct{ first, end int64 }

// thinner thins stretches of one database. It does not change the sums at the rows and keyframes
// that it keeps.
type thinner struct {
	r      *Reader
	enc    encoder
	coarse int64 // factor by which the distance between snapshots is larger than usual
}

// newThinner thins a database of the newest version.
func newThinner(c *conn, path string) (*thinner, error) {
	t := &thinner{r: &Reader{path: path, db: c}, coarse: 1}
	return t, t.enc.prepare(c)
}

// thinRow is one snapshot of a stretch.
type thinRow struct {
	snapshot rt.Snapshot // with CPUs, without devices
	vector   vector
	keep     bool
}

// thin drops the ordinary snapshots of a stretch after number sealed of which the next snapshot
// has all totals, and removes the keyframes inside the stretch. A stretch that was merged from two
// stretches of the same detail keeps every second snapshot. thin runs in the transaction of the
// caller and returns the number of dropped snapshots.
func (t *thinner) thin(s stretch, sealed int64) (dropped int64, err error) {
	from, err := t.keyframe(s.first)
	if err != nil {
		return 0, err
	}
	to, err := t.keyframe(s.end)
	if err != nil {
		return 0, err
	}
	list, err := t.read(s)
	if err != nil || len(list) == 0 {
		return 0, err
	}
	t.choose(s, list, sealed)
	kept := make(map[int64]bool, len(list))
	for i := range list {
		kept[list[i].snapshot.Seq] = list[i].keep
		if !list[i].keep {
			dropped++
		}
	}
	if dropped == 0 {
		return 0, nil
	}
	inner, err := t.r.db.queryInts("SELECT seq FROM keyframe WHERE seq > ? AND seq < ?", s.first, s.end)
	if err != nil {
		return 0, err
	}
	if err := t.write(s, list, from.total); err != nil {
		return 0, err
	}
	for i, table := range readingTables {
		log := logThinner{table: table.name, kept: kept, keyframes: inner}
		if err := log.thin(t.r.db, from.rows[i]+1, to.rows[i]+1); err != nil {
			return 0, fmt.Errorf("thin %s: %w", table.name, err)
		}
	}
	_, err = t.r.db.change("DELETE FROM keyframe WHERE seq > ? AND seq < ?", s.first, s.end)
	return dropped, err
}

// startAt is the position at which a stretch begins.
type startAt struct {
	keyframe
	total sums
}

// keyframe reads the keyframe at a number. The first snapshot needs none.
func (t *thinner) keyframe(seq int64) (startAt, error) {
	if seq == 1 {
		return startAt{}, nil
	}
	it := iterator{of: everything}
	k, err := t.r.seek(&it, seq)
	if err == nil && k.seq != seq {
		err = fmt.Errorf("there is no keyframe at %d", seq)
	}
	return startAt{k, it.total}, err
}

// read reads the snapshots of a stretch.
func (t *thinner) read(s stretch) ([]thinRow, error) {
	var list []thinRow
	lists := listCounters{}
	for snap, err := range t.r.iterate(background, s.first, s.end-1, everything) {
		if err != nil {
			return nil, err
		}
		list = append(list, thinRow{})
		r := &list[len(list)-1]
		r.vector.load(snap)
		r.keep = lists.add(snap)
		cpus := slices.Clone(snap.CPUs)
		r.snapshot = rt.Snapshot{Seq: snap.Seq, Wall: snap.Wall, Boot: snap.Boot, Reason: snap.Reason,
			Node: snap.Node, Job: snap.Job, GPU: snap.GPU, Tree: snap.Tree, CPUs: cpus}
	}
	return list, nil
}

// choose marks the snapshots to keep: the ends of the stretch, snapshots of sealed batches,
// snapshots with a reason other than tick, the last reading of each column, the first reading of
// each counter, and both sides of a counter reset and of a change of the job's phase. Of the rest it
// keeps those that are far enough apart.
func (t *thinner) choose(s stretch, list []thinRow, sealed int64) {
	last := len(list) - 1
	for i := range list {
		r := &list[i]
		snap := &r.snapshot
		r.keep = r.keep || i == 0 || i == last || snap.Reason != rt.ReasonTick || snap.Seq <= sealed
		if i > 0 && snap.Job.Phase != list[i-1].snapshot.Job.Phase {
			r.keep, list[i-1].keep = true, true
		}
	}
	for col := range numCols {
		t.chooseColumn(list, col)
	}
	apart, at := s.apart()*t.coarse, int64(0)
	for i := range list {
		seq := list[i].snapshot.Seq
		list[i].keep = list[i].keep || seq-at >= apart
		if list[i].keep {
			at = seq
		}
	}
	carryPeaks(list)
}

// apart returns the distance between the numbers of kept snapshots, so that as many are kept as
// there are between two keyframes.
func (s stretch) apart() int64 {
	n := int64(1)
	for 2*n*keyframeEvery <= s.end-s.first {
		n *= 2
	}
	return n
}

func (t *thinner) chooseColumn(list []thinRow, col int) {
	prev := -1
	for i := range list {
		v := &list[i].vector
		if !v.ok[col] {
			continue
		}
		if isCounter := deltaColumns[col].counter; isCounter && prev < 0 {
			list[i].keep = true
		} else if isCounter && v.value[col] < list[prev].vector.value[col] {
			list[i].keep, list[prev].keep = true, true
		}
		prev = i
	}
	if prev >= 0 {
		list[prev].keep = true
	}
}

// write replaces the rows of the stretch by the kept ones. total has the sums before the stretch.
func (t *thinner) write(s stretch, list []thinRow, total sums) error {
	for _, table := range deltaTables {
		if _, err := t.r.db.change("DELETE FROM "+table+" WHERE seq >= ? AND seq < ?", s.first, s.end); err != nil {
			return err
		}
	}
	t.enc.state = encoderState{total: total}
	t.enc.cores = t.enc.cores[:0]
	for i := range list {
		if !list[i].keep {
			continue
		}
		t.enc.state.seq = list[i].snapshot.Seq
		if err := t.enc.putScalars(&list[i].snapshot, i == 0); err != nil {
			return err
		}
	}
	return nil
}

// thinStretch thins one stretch and records it in the ledger, in one transaction.
func (t *thinner) thinStretch(s stretch, why string) (dropped int64, err error) {
	c := t.r.db
	err = c.inTx(func() error {
		sealed, err := lastSealed(c) // another process may have sealed a batch since
		if err != nil {
			return err
		}
		dropped, err = t.thin(s, sealed)
		if err != nil || dropped == 0 {
			return err
		}
		return noteThinned(c, dropped, why)
	})
	if errors.Is(err, errNoRoom) {
		return 0, nil
	}
	return dropped, err
}

// carryPeaks sets the peak of each snapshot that stays to the highest peak since the previous
// one that stays. The last peak of the stretch must not change, because the sum at the next
// keyframe must stay the same: therefore the snapshot before it stays, too.
func carryPeaks(list []thinRow) {
	last := lastPeak(list, len(list))
	if last < 0 {
		return
	}
	if before := lastPeak(list, last); before >= 0 {
		list[before].keep = true
	}
	var highest rt.Opt[uint64]
	for i := range list[:last] {
		peak := peakOf(&list[i])
		highest = higher(highest, *peak)
		if list[i].keep {
			*peak = highest
			highest.Clear()
		}
	}
}

// higher returns the higher value; an absent one does not count.
func higher(a, b rt.Opt[uint64]) rt.Opt[uint64] {
	if !a.Valid() || b.Or(0) > a.Or(0) {
		return b
	}
	return a
}

func peakOf(r *thinRow) *rt.Opt[uint64] { return &r.snapshot.Job.MemIntervalPeak }

// lastPeak returns the last row before number end that has a peak, -1 if there is none.
func lastPeak(list []thinRow, end int) int {
	for i := end - 1; i >= 0; i-- {
		if peakOf(&list[i]).Valid() {
			return i
		}
	}
	return -1
}
