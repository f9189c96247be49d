package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// failing is a site of which one call fails.
type failing struct {
	*store
	left int // calls until one fails; negative: none
}

var errKilled = errors.New("killed")

func (f *failing) step() error {
	f.left--
	if f.left == 0 {
		return errKilled
	}
	return nil
}

func (f *failing) RemoveRun(ctx context.Context, id string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.store.RemoveRun(ctx, id)
}

func (f *failing) Deleted(ctx context.Context, stored string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.store.Deleted(ctx, stored)
}

func (f *failing) Rewrite(ctx context.Context, w site.Rewrite) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.store.Rewrite(ctx, w)
}

func (f *failing) Put(ctx context.Context, name string, size int64, body io.Reader) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.store.Put(ctx, name, size, body)
}

func (f *failing) Delete(ctx context.Context, name string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.store.Delete(ctx, name)
}

// rewritten puts "user-x" in the place of a user.
func rewritten(run site.Run, record []byte) (out Rewritten, err error) {
	replace := func(text []byte) []byte { return []byte(strings.ReplaceAll(string(text), "alice", "user-x")) }
	of := *run.Record
	of.User = "user-x"
	out = Rewritten{Metadata: replace(run.Metadata), Run: &of}
	if run.Finish != nil {
		out.Summary = run.Finish.Summary
	}
	if record != nil {
		out.Record = append(replace(record), make([]byte, maxSmall)...) // so that it is in the object store
		for i := len(out.Record) - maxSmall; i < len(out.Record); i++ {
			out.Record[i] = ' '
		}
	}
	return out, nil
}

func (s *store) forget(t *testing.T, left int, rewrite func(site.Run, []byte) (Rewritten, error)) (Forgotten, error) {
	t.Helper()
	f := &failing{s, left}
	return (&Forgetter{
		Registry: f, Objects: f, User: "alice", Rewrite: rewrite, Checked: func(int) {},
		Problem: func(run string, err error) { t.Errorf("run %s: %v", run, err) },
	}).Forget(t.Context())
}

// Forgetting may be interrupted at each step, and finishes when it is started again. Other users keep
// everything, and nothing is damaged.
func TestForgetIsFinishedAfterAnInterruption(t *testing.T) {
	for name, rewrite := range map[string]func(site.Run, []byte) (Rewritten, error){"delete": nil, "pseudonym": rewritten} {
		t.Run(name, func(t *testing.T) {
			for stop := 1; ; stop++ {
				s := newStore(t)
				for n, user := range []string{"alice", "bob", "alice", "malice"} {
					s.fill(t, n, user)
				}
				_, err := s.forget(t, stop, rewrite)
				isWhole := err == nil
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				if _, err := s.forget(t, -1, rewrite); err != nil {
					t.Fatal(err)
				}
				s.wantForgotten(t, rewrite != nil)
				if isWhole {
					if stop < 4 {
						t.Errorf("it took %d steps", stop)
					}
					return
				}
			}
		})
	}
}

// wantForgotten checks that alice is forgotten, and the others are not.
func (s *store) wantForgotten(t *testing.T, rewritten bool) {
	t.Helper()
	want := Totals{Runs: 2, Objects: 6}
	if rewritten {
		want = Totals{Runs: 4, Objects: 12}
	}
	totals, found := s.verify(t)
	totals.Bytes = 0
	if totals != want || len(found) > 0 {
		t.Errorf("%+v, not %+v: %q", totals, want, found)
	}
	for user, jobs := range map[string]int{"alice": 0, "bob": 1, "malice": 1, "user-x": want.Runs - 2} {
		got, _, err := s.Jobs(t.Context(), site.Filter{Users: []string{user}}, "", 10)
		if err != nil || len(got) != jobs {
			t.Errorf("%d jobs of %s, not %d: %v", len(got), user, jobs, err)
		}
	}
	if done, err := s.forget(t, -1, nil); err != nil || done.Runs != 0 {
		t.Errorf("again: %+v, %v", done, err)
	}
	s.sql(t, "PRAGMA wal_checkpoint(TRUNCATE)")
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if text := strings.ReplaceAll(string(content), "malice", ""); strings.Contains(text, "alice") {
			t.Errorf("%s still has the name", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A dry run counts, and changes nothing.
func TestForgetDryRun(t *testing.T) {
	s := newStore(t)
	for n, user := range []string{"alice", "bob", "alice"} {
		s.fill(t, n, user)
	}
	f := &failing{s, 1}
	done, err := (&Forgetter{Registry: f, Objects: f, User: "alice", DryRun: true, Checked: func(int) {}}).Forget(t.Context())
	if err != nil || done.Runs != 2 || done.Objects != 6 || done.Bytes == 0 || done.Unfinished != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// A newer record that arrives while a run is rewritten is not lost: it is rewritten too.
func TestARecordThatArrivesMeanwhileIsRewritten(t *testing.T) {
	s := newStore(t)
	id := s.fill(t, 1, "alice")
	calls := 0
	rewrite := func(run site.Run, record []byte) (Rewritten, error) {
		calls++
		if calls == 1 {
			newer, text := recordOf(t, 1, "alice")
			s.put(t, site.Object{RunID: id, Name: site.RecordName, Class: site.ClassRecord}, append(text, "\n "...), false, &newer)
		}
		return rewritten(run, record)
	}
	done, err := s.forget(t, -1, rewrite)
	if err != nil || done.Runs != 1 || calls != 2 {
		t.Fatalf("%+v, %d calls, %v", done, calls, err)
	}
	totals, found := s.verify(t)
	if len(found) > 0 || totals.Objects != 3 {
		t.Errorf("%+v %q", totals, found)
	}
}

// A record that cannot be rewritten is removed; the run keeps its rows.
func TestARecordThatCannotBeRewrittenIsRemoved(t *testing.T) {
	s := newStore(t)
	id := s.fill(t, 1, "alice")
	done, err := s.forget(t, -1, func(run site.Run, _ []byte) (Rewritten, error) { return rewritten(run, nil) })
	if err != nil || done.Records != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	totals, found := s.verify(t)
	run, err := s.Run(t.Context(), id)
	if err != nil || len(found) > 0 || totals.Objects != 2 || run.Record.User != "user-x" || fmt.Sprint(run.Expired) != "[record]" {
		t.Errorf("%+v %q %+v %v", totals, found, run, err)
	}
}

func TestUserOf(t *testing.T) {
	for text, want := range map[string]string{
		`{"tags":{"slurm_user":"a"}}`: "a", `{"tags":{}}`: "", `{"tags":[1]}`: "", `x`: "", `{"tags":{"slurm_user":1}}`: "",
	} {
		if got := UserOf([]byte(text)); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	if !isOf(site.Run{Record: &rt.Run{Allocation: rt.Allocation{User: "a"}}}, "a") {
		t.Error("the user of the record is not looked at")
	}
}
