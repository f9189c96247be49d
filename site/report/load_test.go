package report

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/spool"
)

// loaded makes a report of runs with these records; nil stands for one that is gone.
func loaded(t *testing.T, add Add, records ...[]byte) (*LoadedJob, error) {
	t.Helper()
	m := New(Maker{Temp: t.TempDir(), Open: func(_ context.Context, id string) (io.ReadCloser, error) {
		record := records[id[0]-'0']
		if record == nil {
			return nil, site.ErrNotFound
		}
		return io.NopCloser(bytes.NewReader(record)), nil
	}})
	r := site.Report{Form: site.FormJSON, Name: "1"}
	for i := range records {
		run := rt.Run{}
		run.Node = string(rune('a' + i))
		r.Runs = append(r.Runs, site.StoredRun{ID: string(rune('0' + i)), Record: &run})
	}
	dir := t.TempDir()
	if err := m.prepare(t.Context(), dir, r); err != nil {
		t.Fatal(err)
	}
	return Load(t.Context(), dir, add)
}

// The registry knows that the node of a run is dead, and the record does not.
func TestReportOfASilentNode(t *testing.T) {
	_, record := written(t, 4, 0, 20) // not closed
	lost := rt.Ending{State: rt.StateEnded, Outcome: rt.OutcomeLost, End: time.Unix(1772352020, 0).UTC()}
	for _, c := range []struct{ known, want rt.Ending }{
		{rt.Ending{State: rt.StateRunning}, rt.Ending{State: rt.StateRunning}},
		{lost, rt.Ending{State: rt.StateDelivered, Outcome: rt.OutcomeLost, End: lost.End}},
	} {
		dir := t.TempDir()
		file := recordFile{Name: "0.rtrec", Run: &rt.Run{Ending: c.known}}
		if err := os.WriteFile(filepath.Join(dir, file.Name), record, 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := file.load(t.Context(), dir, &spool.ImportLimits{Runs: 1, Bytes: maxFiles}, noFigures)
		if err != nil || r.Summary.Run.Ending != c.want {
			t.Errorf("%+v, want %+v; %v", r.Summary.Run.Ending, c.want, err)
		}
	}
}

func noFigures(context.Context, *spool.Reader, *report.Summary) error { return nil }

// A report leaves out the records that it cannot read, and says which and why.
func TestReportWithoutDamagedRecords(t *testing.T) {
	_, good := written(t, 1, 0, 20)
	j, err := loaded(t, noFigures, good, good[:len(good)-1], nil, []byte("x"), bytes.Clone(good))
	if err != nil {
		t.Fatal(err)
	}
	if len(j.Runs) != 5 || len(j.Jobs) != 1 || len(j.Jobs[0].Runs) != 1 || j.Runs[0].Summary.Damage != "" || j.Runs[0].Path == "" {
		t.Fatalf("%+v", j)
	}
	for i, want := range []string{"", "cut", "gone", "damaged", "already spooled"} {
		s := j.Runs[i].Summary
		isNamed := i == 0 || s.Run.Node == string(rune('a'+i)) && strings.Contains(s.Damage, "left out") && j.Runs[i].Path == ""
		if !isNamed || !strings.Contains(s.Damage, want) || s.Record.Readings > 0 != (i == 0) {
			t.Errorf("run %d: %+v", i, s)
		}
	}
	isFull := errors.New("the disk is full")
	if _, err := loaded(t, func(context.Context, *spool.Reader, *report.Summary) error { return isFull }, good); !errors.Is(err, isFull) {
		t.Errorf("another error: %v", err)
	}
	if _, err := loaded(t, noFigures, nil, []byte("x")); !errors.Is(err, site.ErrDamaged) {
		t.Errorf("no record can be read: %v", err)
	}
}
