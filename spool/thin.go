package spool

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

const (
	stretchKept = 32 // thinning leaves about this many snapshots of a stretch, and never thins twice as many of the newest
	keptAtLeast = 4  // the least that stretchKept is lowered to, on a full disk and for a run that has ended
	thinLevels  = 20 // see thinner
)

// stretch is the range of snapshot numbers from first to last, both included. After it is thinned, about one of apart
// numbers still has a snapshot.
type stretch struct{ first, last, apart int64 }

// thinner thins one database, stretch by stretch. At level n it leaves one of 4^(n+1) snapshots. If it left every second
// row, SQLite could free no page.
type thinner struct {
	c    *conn
	kept int64             // see stretchKept
	done [thinLevels]int64 // for each level, the last number of its newest thinned stretch
}

// mergedColumns have values that cover the time since the snapshot before. merge computes the value of the last row for the
// time since the first; col is the index of the column in snapshotColumns.
var mergedColumns = [...]struct {
	name  string
	merge func(rows [][]driver.Value, col int) driver.Value
}{
	{"job_mem_interval_peak_kib", highest}, {"node_gpu_usage", meanOverTime}, {"job_gpu_usage", meanOverTime},
}

// next returns the next stretch to thin, after the snapshot with the number sealed. It chooses the lowest level that has a
// stretch, and there the oldest stretch. found is false if there is none.
func (t *thinner) next(sealed, newest int64) (level int, s stretch, found bool) {
	for level := range t.done {
		from, apart := max(t.done[level], sealed), int64(4)<<(2*level)
		s := stretch{from + 1, from + t.kept*apart, apart}
		if s.last <= newest-2*t.kept {
			return level, s, true
		}
	}
	return 0, stretch{}, false
}

// thinNext thins the next stretch and records it in the ledger, in one transaction. why names the limit. If there is no
// stretch, thinNext lowers t.kept, which makes the stretches shorter, but not below shortest. It returns how many snapshots
// it dropped. found is false if there was no stretch.
func (t *thinner) thinNext(why string, shortest int64) (dropped int64, found bool, err error) {
	var level int
	var s stretch
	err = t.c.inTx(func() error {
		sealed, err := lastSealed(t.c) // another process may have sealed a batch since
		if err != nil {
			return err
		}
		newest, err := t.c.queryInt(lastSeq)
		if err != nil {
			return err
		}
		level, s, found = t.next(sealed, newest)
		for !found && t.kept > shortest {
			t.kept /= 2
			level, s, found = t.next(sealed, newest)
		}
		if !found {
			return nil
		}
		dropped, err = t.thin(s)
		if err != nil || dropped == 0 {
			return err
		}
		return noteThinned(t.c, dropped, why)
	})
	if err != nil {
		return 0, found, err
	}
	if found {
		t.done[level] = s.last
	}
	return dropped, found, nil
}

// thin drops the snapshots of a stretch that choose does not mark. Counters are running totals, so the
// snapshots that stay have all of them.
func (t *thinner) thin(s stretch) (dropped int64, err error) {
	rows, err := t.read(s)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	stays, err := t.choose(s, rows)
	if err != nil {
		return 0, err
	}
	last := 0 // index of the last row that stays
	for i := range rows {
		if !stays[i] {
			dropped++
			continue
		}
		if i > last+1 {
			if err := t.merge(rows[last : i+1]); err != nil {
				return 0, err
			}
		}
		last = i
	}
	return dropped, nil
}

// storedColumns lists the columns of the table snapshot.
func storedColumns() []string { return columnNamesOf(snapshotColumns(new(rt.Snapshot), everyFigure)) }

// read returns the snapshots of a stretch, the oldest first.
func (t *thinner) read(s stretch) (rows [][]driver.Value, err error) {
	err = t.c.each("SELECT "+strings.Join(storedColumns(), ", ")+" FROM snapshot WHERE seq BETWEEN ? AND ? ORDER BY seq", []driver.Value{s.first, s.last},
		func(row []driver.Value) error {
			rows = append(rows, slices.Clone(row))
			return nil
		})
	return rows, err
}

// choose marks the snapshots that stay: the ends of the stretch, and those with a reason other than
// tick. The last reading of each column and the first reading of each counter stay. Both sides of a
// counter reset and of a change of the job's phase stay as well. Another snapshot stays if its
// number is at least s.apart after the number of the last one that stays.
func (t *thinner) choose(s stretch, rows [][]driver.Value) ([]bool, error) {
	stays := make([]bool, len(rows))
	stays[0], stays[len(rows)-1] = true, true
	for i, row := range rows {
		stays[i] = stays[i] || row[columnReason] != int64(rt.ReasonTick)
		if i > 0 && row[columnPhase] != rows[i-1][columnPhase] {
			stays[i], stays[i-1] = true, true
		}
	}
	markCounters(rows, stays)
	for col := range rows[0] {
		for i := len(rows) - 1; i >= 0; i-- {
			if rows[i][col] != nil {
				stays[i] = true
				break
			}
		}
	}
	if err := t.markFirsts(s, rows, stays); err != nil {
		return nil, err
	}
	at := int64(0)
	for i, row := range rows {
		seq, _ := row[columnSeq].(int64)
		stays[i] = stays[i] || seq-at >= s.apart
		if stays[i] {
			at = seq
		}
	}
	return stays, nil
}

// markCounters marks the rows with the first reading of each counter, and the rows before and after each fall.
func markCounters(rows [][]driver.Value, stays []bool) {
	for _, col := range counterColumns() {
		prev, before := -1, int64(0)
		for i, row := range rows {
			n, ok := row[col].(int64)
			if !ok {
				continue
			}
			if prev < 0 {
				stays[i] = true
			} else if n < before {
				stays[i], stays[prev] = true, true
			}
			prev, before = i, n
		}
	}
}

// markFirsts marks the snapshots with the first reading of each counter in a list.
func (t *thinner) markFirsts(s stretch, rows [][]driver.Value, stays []bool) error {
	firsts, err := t.c.queryInts("SELECT min(seq) FROM energy_value WHERE seq BETWEEN ?1 AND ?2 AND energy_uj IS NOT NULL GROUP BY energy UNION "+
		"SELECT min(seq) FROM perf_value WHERE seq BETWEEN ?1 AND ?2 AND value IS NOT NULL GROUP BY perf", s.first, s.last)
	for i, row := range rows {
		seq, _ := row[columnSeq].(int64)
		stays[i] = stays[i] || slices.Contains(firsts, seq)
	}
	return err
}

// merge deletes the rows between the first and the last. The last one then stands for the time
// since the first. It gets the highest peak and the mean GPU usage of that time. If it lacks an
// element of a list, it gets the last value of this element.
func (t *thinner) merge(rows [][]driver.Value) error {
	from, to := rows[0][columnSeq], rows[len(rows)-1][columnSeq]
	for _, m := range mergedColumns {
		col := slices.Index(storedColumns(), m.name)
		v := m.merge(rows, col)
		if v == rows[len(rows)-1][col] {
			continue
		}
		if _, err := t.c.change("UPDATE snapshot SET "+m.name+" = ? WHERE seq = ?", v, to); err != nil {
			return err
		}
	}
	tables := []string{"snapshot", coreTable}
	for _, l := range storedLists {
		carry := fmt.Sprintf("INSERT OR IGNORE INTO %[1]s (seq, %[2]s, %[3]s) SELECT ?3, %[2]s, %[3]s FROM %[1]s WHERE seq > ?1 AND seq < ?2 ORDER BY seq DESC",
			l.values(), l.table(), sqlNames(l.valueColumns()))
		if _, err := t.c.change(carry, from, to, to); err != nil {
			return err
		}
		tables = append(tables, l.values())
	}
	for _, table := range tables {
		if _, err := t.c.change("DELETE FROM "+table+" WHERE seq > ? AND seq < ?", from, to); err != nil {
			return err
		}
	}
	return nil
}

// meanOverTime returns the mean of the numbers in a column after the first row. The weight of each is the time since the row
// before. If there is no number, or no time has passed, it returns the value of the last row.
func meanOverTime(rows [][]driver.Value, col int) driver.Value {
	var sum, time float64
	for i, row := range rows[1:] {
		v, isRead := number(row[col])
		now, _ := number(row[columnBoot])
		before, _ := number(rows[i][columnBoot])
		if isRead && now > before {
			sum, time = sum+v*(now-before), time+now-before
		}
	}
	if time == 0 {
		return rows[len(rows)-1][col]
	}
	return sum / time
}

// highest returns the highest number in a column after the first row, or nil (NULL) if there is none.
func highest(rows [][]driver.Value, col int) (most driver.Value) {
	for _, row := range rows[1:] {
		if isMore(row[col], most) {
			most = row[col]
		}
	}
	return most
}

func isMore(a, b driver.Value) bool {
	x, ok := number(a)
	if !ok {
		return false
	}
	y, isThere := number(b)
	return !isThere || x > y
}

func number(v driver.Value) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}
