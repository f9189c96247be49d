package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// failing is a site of which one call fails, and with it the context.
type failing struct {
	*store
	left int // calls until one fails; negative: none
	kill context.CancelCauseFunc
}

var errKilled = errors.New("killed")

func (f *failing) step() error {
	f.left--
	if f.left == 0 {
		f.kill(errKilled)
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
		out.Record = append(replace(record), make([]byte, site.MaxRow)...) // so that it is in the object store
		for i := len(out.Record) - site.MaxRow; i < len(out.Record); i++ {
			out.Record[i] = ' '
		}
	}
	return out, nil
}

func (s *store) forget(t *testing.T, left int, rewrite func(site.Run, []byte) (Rewritten, error)) (Forgotten, error) {
	t.Helper()
	ctx, kill := context.WithCancelCause(t.Context())
	defer kill(nil)
	f := &failing{s, left, kill}
	return (&Forgetter{
		Registry: f, Objects: f, Users: []string{"alice"}, Rewrite: rewrite, Checked: func(int) {},
		Problem: func(run string, err error) { t.Errorf("run %s: %v", run, err) },
	}).Forget(ctx)
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
	f := &failing{s, 1, func(error) { t.Error("it changed something") }}
	done, err := (&Forgetter{Registry: f, Objects: f, Users: []string{"alice"}, DryRun: true, Checked: func(int) {}}).Forget(t.Context())
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

// broken is a site of which some calls always fail.
type broken struct {
	*store
	run    string // that cannot be changed
	stored string // that cannot be deleted
}

var errBroken = errors.New("broken")

func (b *broken) RemoveRun(ctx context.Context, id string) error {
	if id == b.run {
		return errBroken
	}
	return b.store.RemoveRun(ctx, id)
}

func (b *broken) Rewrite(ctx context.Context, w site.Rewrite) error {
	if w.Old.ID == b.run {
		return errBroken
	}
	return b.store.Rewrite(ctx, w)
}

func (b *broken) Delete(ctx context.Context, name string) error {
	if name == b.stored {
		return errBroken
	}
	return b.store.Delete(ctx, name)
}

// A run that cannot be changed and an object that cannot be deleted are reported, and stop nothing else.
func TestForgetGoesOn(t *testing.T) {
	for name, rewrite := range map[string]func(site.Run, []byte) (Rewritten, error){"delete": nil, "pseudonym": rewritten} {
		t.Run(name, func(t *testing.T) {
			s := newStore(t)
			var ids []string
			for n := range 3 {
				ids = append(ids, s.fill(t, n, "alice"))
			}
			stored := ""
			for o, err := range s.List(t.Context(), ids[1]) {
				if err != nil {
					t.Fatal(err)
				}
				isRecord := strings.Contains(s.content(t, o.Name), "alice")
				if isRecord {
					stored = o.Name
				}
			}
			problems := map[string]int{}
			b := &broken{s, ids[0], stored}
			f := &Forgetter{Registry: b, Objects: b, Users: []string{"alice"}, Rewrite: rewrite, Checked: func(int) {}}
			f.Problem = func(run string, err error) {
				if !errors.Is(err, errBroken) {
					t.Errorf("run %s: %v", run, err)
				}
				problems[run]++
			}
			done, err := f.Forget(t.Context())
			if err != nil || done.Runs != 2 || done.Failed != 1 || done.Undeleted != 1 || problems[ids[0]] != 1 || problems[ids[1]] != 1 {
				t.Errorf("%+v, %v, problems %v", done, err, problems)
			}
			if names, err := s.Leftover(t.Context(), "", 10); err != nil || len(names) != 1 || names[0] != stored {
				t.Errorf("%q, not %q: %v", names, stored, err)
			}
			if done, err := s.forget(t, -1, rewrite); err != nil || done.Runs != 1 || done.Failed != 0 || done.Undeleted != 0 {
				t.Errorf("again: %+v, %v", done, err)
			}
			if names, err := s.Leftover(t.Context(), "", 10); err != nil || len(names) != 0 {
				t.Errorf("left %q: %v", names, err)
			}
		})
	}
}

// content is an object in the object store.
func (s *store) content(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, "objects", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// A record that is not in the object store keeps its row: the store may be the wrong one.
func TestAMissingRecordKeepsItsRow(t *testing.T) {
	s := newStore(t)
	id := s.fill(t, 1, "alice")
	if err := os.Rename(filepath.Join(s.dir, "objects", id), filepath.Join(s.dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	before, err := s.Objects(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	problems := 0
	f := &Forgetter{Registry: s, Objects: s, Users: []string{"alice"}, Rewrite: rewritten, Checked: func(int) {}}
	f.Problem = func(run string, err error) {
		problems++
		if run != id || !errors.Is(err, site.ErrNotFound) {
			t.Errorf("run %s: %v", run, err)
		}
	}
	done, err := f.Forget(t.Context())
	if err != nil || done.Runs != 0 || done.Failed != 1 || done.Records != 0 || problems != 1 {
		t.Errorf("%+v, %d problems, %v", done, problems, err)
	}
	after, err := s.Objects(t.Context(), id)
	if err != nil || !slices.Equal(after, before) {
		t.Errorf("%+v, not %+v: %v", after, before, err)
	}
	if err := os.Rename(filepath.Join(s.dir, "elsewhere"), filepath.Join(s.dir, "objects", id)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.forget(t, -1, rewritten); err != nil {
		t.Error(err)
	}
	if totals, found := s.verify(t); len(found) > 0 || totals.Objects != 3 {
		t.Errorf("%+v %q", totals, found)
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
	if !isOf(site.Run{Record: &rt.Run{Allocation: rt.Allocation{User: "a"}}}, []string{"b", "a"}) {
		t.Error("the user of the record is not looked at")
	}
}
