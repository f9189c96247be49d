package spool

import (
	"bytes"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool/internal/rowcodec"
)

// recordOf returns the record of a run.
func recordOf(t testing.TB, r *Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Dump(t.Context(), &out, r, nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// restored makes a run of a record in a directory of its own.
func restored(t testing.TB, record []byte) *Reader {
	t.Helper()
	path, err := Load(t.TempDir(), nil, bytes.NewReader(record))
	if err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, path)
}

// tableContents has every row of every table, without the state of the delivery.
func tableContents(t testing.TB, r *Reader) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	var tables []string
	err := r.db.each("SELECT name FROM sqlite_schema WHERE type = 'table'", nil, func(row []driver.Value) error {
		tables = append(tables, row[0].(string))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tables {
		if name == "registration" || name == "batch" {
			continue
		}
		err := r.db.each("SELECT * FROM "+name+" ORDER BY 1, 2", nil, func(row []driver.Value) error {
			text := ""
			for _, v := range row {
				text += fmt.Sprintf("%T %q|", v, fmt.Sprint(v))
			}
			out[name] = append(out[name], text)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// sameRows asserts that the rows are the same as in the original.
func sameRows(t testing.TB, want, got *Reader) {
	t.Helper()
	w, g := tableContents(t, want), tableContents(t, got)
	for name := range w {
		if !reflect.DeepEqual(w[name], g[name]) {
			t.Errorf("table %s (-want +got):\n%.4000s", name, cmp.Diff(w[name], g[name]))
		}
	}
	if len(g) > len(w) {
		t.Errorf("%d tables have rows, not %d", len(g), len(w))
	}
}

// randomRun makes a run of random snapshots, events and reports of other programs. Every third one
// has no end.
func randomRun(t testing.TB, seed uint64) *Reader {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	run := testRun()
	var n int64
	if seed%2 == 0 {
		fill(reflect.ValueOf(&run).Elem(), &n)
		run.Step, run.State = "0", rt.StateRunning
	}
	w, err := Create(t.TempDir(), run, rt.Host{HostName: "n1", StorageGB: rt.Some(rng.Float64())}, Options{CommitRows: 20 + rng.IntN(20)})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 + rng.IntN(200) {
		s := randomSnapshot(rng, int64(i+1))
		if rng.IntN(20) > 0 {
			s.Reason = rt.ReasonTick // no commit
		}
		if err := w.Put(s); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(30) == 0 {
			w.Event(rt.Event{Kind: "gap", Name: fmt.Sprint(i), Status: "late", Detail: "a \x00 b\xff"})
			err := w.Record(rt.ForeignReport{Time: s.Wall, Source: "x", Body: bytes.Repeat([]byte{'"', byte(i)}, rng.IntN(2000))})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if seed%3 == 0 {
		err = w.Close()
	} else {
		run.Outcome = rt.OutcomeOOM
		err = w.End(run)
	}
	if err != nil {
		t.Fatal(err)
	}
	return mustOpen(t, w.Path())
}

// thinnedRun makes a run whose snapshots a quota has thinned.
func thinnedRun(t testing.TB) *Reader {
	t.Helper()
	w := mustCreate(t, Options{CommitRows: 100, QuotaRun: 160 << 10})
	m := newMachine(4, 1)
	for range 1500 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	if n, err := thinned(r.db); err != nil || n == 0 {
		t.Fatalf("%d snapshots were thinned, %v", n, err)
	}
	return r
}

// A run that is made of a record has the rows of the original in every table, except those about
// its delivery.
func TestRecordHasEveryRow(t *testing.T) {
	t.Parallel()
	runs := []*Reader{thinnedRun(t)}
	for seed := range uint64(sized(6, 2)) {
		runs = append(runs, randomRun(t, seed))
	}
	for i, r := range runs {
		record := recordOf(t, r)
		back := restored(t, record)
		sameRows(t, r, back)
		if !bytes.Equal(recordOf(t, back), record) {
			t.Errorf("run %d: the record of the new run differs", i)
		}
		if want, got := r.Verify(t.Context()), back.Verify(t.Context()); !reflect.DeepEqual(want, got) {
			t.Errorf("run %d: verify finds %v, and %v in the original", i, got, want)
		}
		if want, got := filepath.Base(r.Path()), filepath.Base(back.Path()); want != got {
			t.Errorf("run %d: the file is %s, not %s", i, got, want)
		}
	}
}

// Blocks are bounded: a long run and one with large reports have several of a table.
func TestRecordOfManyRows(t *testing.T) {
	t.Parallel()
	w := mustCreate(t, Options{CommitRows: 1000})
	m := newMachine(64, 0)
	for range sized(2600, 1300) {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	noise := make([]byte, 600<<10)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range noise {
		noise[i] = byte(' ' + rng.IntN(90))
	}
	for i := range 4 {
		if err := w.Record(rt.ForeignReport{Time: int64(i) * 1e9, Source: "x", Body: noise}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	sameRows(t, r, restored(t, recordOf(t, r)))
}

// The state of the delivery stays out, because it is about one receiver. The record that a finish
// names must be the same at each attempt. The first run has no other event.
func TestRecordLeavesTheDeliveryOut(t *testing.T) {
	w, m := mustCreate(t, Options{}), newMachine(2, 1)
	for range 5 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(testRun()); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Reader{mustOpen(t, w.Path()), randomRun(t, 1)} {
		checkDeliveryLeftOut(t, r)
	}
}

func checkDeliveryLeftOut(t *testing.T, r *Reader) {
	t.Helper()
	before := recordOf(t, r)
	err := errors.Join(
		r.Delivery().SaveRegistration(rt.Registration{Endpoint: "http://a", RemoteID: "7", Record: true}),
		r.AddEvent(rt.Event{Kind: rt.EventDelivery, Name: "register", Status: "possible duplicate", Detail: "x"}),
		r.Delivery().SealBatch(rt.Batch{Number: 1, FirstSeq: 1, LastSeq: 3, Rows: 3, SHA256: strings.Repeat("0", 64), Key: "k", SealedAt: time.Unix(1772367180, 0)}),
		r.Delivery().MarkDelivered(time.Unix(1772367180, 0)),
	)
	if err != nil {
		t.Fatal(err)
	}
	record := recordOf(t, r)
	if !bytes.Equal(record, before) {
		t.Error("the record has changed with the delivery")
	}
	back := restored(t, record)
	at, err := back.Delivery().DeliveredAt()
	if err != nil || !at.IsZero() || back.Run().State != rt.StateEnded {
		t.Errorf("%v, %v, state %s", at, err, back.Run().State)
	}
}

// A record that is made while a tracker writes the run shows one moment. It ends like the run of a tracker
// that has died.
func TestRecordOfALiveRun(t *testing.T) {
	w := mustCreate(t, Options{})
	m := newMachine(2, 1)
	for range 25 {
		if err := w.Put(m.next()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, w.Path())
	back := restored(t, recordOf(t, r))
	sameRows(t, r, back)
	live, err := back.Live()
	if err != nil || live {
		t.Errorf("live %v, %v", live, err)
	}
	if err := back.CloseLost(rt.Exit{}, ""); err != nil || back.Run().Outcome != rt.OutcomeLost {
		t.Errorf("%v, outcome %s", err, back.Run().Outcome)
	}
}

// A record that is cut or changed anywhere makes no run, and the error says so.
func TestDamagedRecord(t *testing.T) {
	record := recordOf(t, stored(t, Options{}, []*rt.Snapshot{newMachine(2, 1).next()}))
	dir := t.TempDir()
	check := func(what string, data []byte) {
		t.Helper()
		path, err := Load(dir, nil, bytes.NewReader(data))
		if !errors.Is(err, ErrRecord) {
			t.Errorf("%s: %q, %v", what, path, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Fatalf("%s: %v, %v", what, entries, err)
		}
	}
	for n := 0; n < len(record); n += 1 + len(record)/25 {
		check(fmt.Sprint("cut at ", n), record[:n])
		changed := bytes.Clone(record)
		changed[n] ^= 0x10
		check(fmt.Sprint("changed at ", n), changed)
	}
	check("cut at the end", record[:len(record)-1])
	check("with another byte", append(bytes.Clone(record), 0))
	failed := errors.New("connection reset")
	for _, n := range []int64{3, int64(len(record) / 2)} {
		_, err := Load(dir, nil, io.MultiReader(io.LimitReader(bytes.NewReader(record), n), iotest.ErrReader(failed)))
		if !errors.Is(err, failed) || errors.Is(err, ErrRecord) {
			t.Errorf("a reader that fails after %d bytes: %v", n, err)
		}
	}
}

// A record of another version, or of a hostile source, names only tables and columns that rt knows,
// and none about a delivery.
func TestHostileRecord(t *testing.T) {
	head := []recordTable{{"run", []string{"node", "state"}}, {"host", []string{"host_name"}}}
	const state = string(rt.StateEnded)
	for name, c := range map[string]struct {
		state string
		table recordTable
		rows  [][]driver.Value
		want  error
	}{
		"a good one":     {state, recordTable{"event", []string{"id", "kind"}}, [][]driver.Value{{int64(1), "gap"}}, nil},
		"unknown table":  {state, recordTable{"sqlite_schema", []string{"name"}}, [][]driver.Value{{"x"}}, ErrNewer},
		"unknown column": {state, recordTable{"event", []string{"id", "x"}}, [][]driver.Value{{int64(1), "x"}}, ErrNewer},
		"SQL":            {state, recordTable{"event", []string{`id",`, "x"}}, [][]driver.Value{{int64(1), "x"}}, ErrNewer},
		"delivery":       {state, recordTable{"batch", []string{"number"}}, [][]driver.Value{{int64(1)}}, ErrNewer},
		"column twice":   {state, recordTable{"event", []string{"id", "id"}}, [][]driver.Value{{int64(1), int64(2)}}, ErrRecord},
		"second run":     {state, recordTable{"run", []string{"node"}}, [][]driver.Value{{"n2"}}, ErrRecord},
		"same row twice": {state, recordTable{"event", []string{"id"}}, [][]driver.Value{{int64(1)}, {int64(1)}}, ErrRecord},
		"text as number": {state, recordTable{"event", []string{"id"}}, [][]driver.Value{{"one"}}, ErrRecord},
		"delivered":      {"delivered", recordTable{"event", []string{"id"}}, [][]driver.Value{{int64(1)}}, ErrRecord},
		"large value":    {state, recordTable{"event", []string{"id", "detail"}}, [][]driver.Value{{int64(1), strings.Repeat("x", maxValue+1)}}, ErrRecord},
	} {
		var out bytes.Buffer
		w := newRecordWriter(&out)
		err := errors.Join(w.frame(packTables(append(head, c.table))),
			w.rows(0, &head[0], [][]driver.Value{{"n1", c.state}}), w.rows(1, &head[1], [][]driver.Value{{"n1"}}),
			w.rows(2, &c.table, c.rows), w.end())
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		path, err := Load(dir, nil, &out)
		if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
			t.Errorf("%s: %q, %v, want %v", name, path, err, c.want)
		}
		left := 1
		if c.want != nil {
			left = 0
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != left {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

// A record cannot make a file of any size.
func TestRecordLimits(t *testing.T) {
	table := recordTable{"event", []string{"id", "detail"}}
	var rows [][]driver.Value
	for i := range int64(100) {
		rows = append(rows, []driver.Value{i, strings.Repeat("x", 30_000)})
	}
	head := []recordTable{{"run", []string{"node", "state"}}, {"host", []string{"host_name"}}}
	var out bytes.Buffer
	w := newRecordWriter(&out)
	err := errors.Join(w.frame(packTables(append(head, table))),
		w.rows(0, &head[0], [][]driver.Value{{"n1", "ended"}}), w.rows(1, &head[1], [][]driver.Value{{"n1"}}))
	for i := range int64(10) {
		for _, row := range rows {
			row[0] = row[0].(int64) + 100*min(i, 1)
		}
		err = errors.Join(err, w.rows(2, &table, rows))
	}
	if err = errors.Join(err, w.end()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	_, err = Load(dir, &ImportLimits{Runs: 1, Bytes: 4 << 20}, bytes.NewReader(out.Bytes()))
	if !errors.Is(err, ErrImport) {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// An existing run is not changed.
func TestRecordOfARunThatIsThere(t *testing.T) {
	record := recordOf(t, randomRun(t, 1))
	dir := t.TempDir()
	for _, want := range []error{nil, ErrExists} {
		if _, err := Load(dir, nil, bytes.NewReader(record)); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

// Any block makes a run that can be read, or none. The checksums of the frames are right.
func FuzzReadRecord(f *testing.F) {
	r := randomRun(f, 1)
	tables, err := r.db.recordTables()
	if err != nil {
		f.Fatal(err)
	}
	for i, t := range tables {
		var rows [][]driver.Value
		err := r.db.each("SELECT "+t.quoted()+" FROM "+t.name+" ORDER BY "+t.order()+" LIMIT 20", nil, func(row []driver.Value) error {
			rows = append(rows, append([]driver.Value(nil), row...))
			return nil
		})
		if err != nil {
			f.Fatal(err)
		}
		if len(rows) > 0 {
			f.Add(uint8(i), uint16(len(rows)), rowcodec.Append(nil, t.key(), rows))
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, number uint8, rows uint16, block []byte) {
		var out bytes.Buffer
		w := newRecordWriter(&out)
		run, host := recordTable{"run", []string{"node", "state"}}, recordTable{"host", []string{"host_name"}}
		some := append([]recordTable{run, host}, tables[2:]...)
		head := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(number)), uint64(rows))
		err := errors.Join(w.frame(packTables(some)), w.rows(0, &run, [][]driver.Value{{"n1", "ended"}}), w.rows(1, &host, [][]driver.Value{{"n1"}}),
			w.frame(append(head, block...)), w.end())
		if err != nil {
			t.Fatal(err)
		}
		path, err := Load(dir, &ImportLimits{Runs: 1, Bytes: 8 << 20}, &out)
		if err != nil {
			return
		}
		back, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for range back.Snapshots(t.Context(), 1, 0) {
		}
		_, _ = back.Events()
		back.Verify(t.Context())
		if err := back.Remove(); err != nil {
			t.Fatal(err)
		}
	})
}
