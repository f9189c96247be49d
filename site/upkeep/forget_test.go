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
	"sync/atomic"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/objects"
)

// dying is a context that ends when it is asked for the n-th time whether it has ended: each change of the registry asks.
type dying struct {
	context.Context
	left atomic.Int64 // negative: it does not end
	kill context.CancelFunc
}

func (d *dying) Err() error {
	if d.left.Add(-1) == 0 {
		d.kill()
	}
	return d.Context.Err()
}

// dyingStore asks its context before each change.
type dyingStore struct{ *objects.Dir }

func (d dyingStore) Put(ctx context.Context, name string, size int64, body io.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.Dir.Put(ctx, name, size, body)
}

func (d dyingStore) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.Dir.Delete(ctx, name)
}

// rewritten puts "user-x" in the place of a user.
func rewritten(run site.StoredRun, record []byte) (out Rewritten, err error) {
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

func (s *store) forget(t *testing.T, left int, rewrite func(site.StoredRun, []byte) (Rewritten, error)) (Forgotten, error) {
	t.Helper()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	d := &dying{Context: ctx, kill: kill}
	d.left.Store(int64(left))
	return (&Forgetter{
		Registry: s.Registry, Objects: dyingStore{s.Dir}, Users: []string{"alice"}, Rewrite: rewrite, Checked: func(int) {},
		Problem: func(run string, err error) { t.Errorf("run %s: %v", run, err) },
	}).Forget(d)
}

// Forgetting may be interrupted at each step, and finishes when it is started again. Other users keep
// everything, and nothing is damaged.
func TestForgetIsFinishedAfterAnInterruption(t *testing.T) {
	for name, rewrite := range map[string]func(site.StoredRun, []byte) (Rewritten, error){"delete": nil, "pseudonym": rewritten} {
		t.Run(name, func(t *testing.T) {
			whole := newStore(t)
			for n, user := range []string{"alice", "bob", "alice", "malice"} {
				whole.fill(t, n, user)
			}
			step := 1
			if testing.Short() {
				step = 8
			}
			for stop := 1; ; stop += step {
				s := whole.copied(t)
				_, err := s.forget(t, stop, rewrite)
				isWhole := err == nil
				if err != nil && !errors.Is(err, context.Canceled) {
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
		got, _, err := s.Jobs.List(t.Context(), site.Filter{Users: []string{user}}, "", 10)
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
	for _, table := range []string{"run", "object", "job"} {
		s.sql(t, "CREATE TRIGGER no_update_"+table+" BEFORE UPDATE ON "+table+" BEGIN SELECT RAISE(ABORT, 'it changed something'); END")
		s.sql(t, "CREATE TRIGGER no_delete_"+table+" BEFORE DELETE ON "+table+" BEGIN SELECT RAISE(ABORT, 'it changed something'); END")
	}
	done, err := (&Forgetter{Registry: s.Registry, Objects: site.ObjectStore(nil), Users: []string{"alice"}, DryRun: true, Checked: func(int) {}}).Forget(t.Context())
	if err != nil || done.Runs != 2 || done.Objects != 6 || done.Bytes == 0 || done.Unfinished != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// A newer record that arrives while a run is rewritten is not lost: it is rewritten too.
func TestARecordThatArrivesMeanwhileIsRewritten(t *testing.T) {
	s := newStore(t)
	id := s.fill(t, 1, "alice")
	calls := 0
	rewrite := func(run site.StoredRun, record []byte) (Rewritten, error) {
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
	done, err := s.forget(t, -1, func(run site.StoredRun, _ []byte) (Rewritten, error) { return rewritten(run, nil) })
	if err != nil || done.Records != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	totals, found := s.verify(t)
	run, err := s.Runs.Get(t.Context(), id)
	if err != nil || len(found) > 0 || totals.Objects != 2 || run.Record.User != "user-x" || fmt.Sprint(run.Expired) != "[record]" {
		t.Errorf("%+v %q %+v %v", totals, found, run, err)
	}
}

// broken is an object store in which one object cannot be deleted.
type broken struct {
	*objects.Dir
	stored string
}

var errBroken = errors.New("broken")

func (b *broken) Delete(ctx context.Context, name string) error {
	if name == b.stored {
		return errBroken
	}
	return b.Dir.Delete(ctx, name)
}

// A run that cannot be changed and an object that cannot be deleted are reported, and stop nothing else.
func TestForgetGoesOn(t *testing.T) {
	for name, rewrite := range map[string]func(site.StoredRun, []byte) (Rewritten, error){"delete": nil, "pseudonym": rewritten} {
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
			for _, change := range []string{"UPDATE", "DELETE"} {
				s.sql(t, "CREATE TRIGGER no_"+change+" BEFORE "+change+" ON run WHEN old.id = '"+ids[0]+"' BEGIN SELECT RAISE(ABORT, 'broken'); END")
			}
			f := &Forgetter{Registry: s.Registry, Objects: &broken{s.Dir, stored}, Users: []string{"alice"}, Rewrite: rewrite, Checked: func(int) {}}
			f.Problem = func(run string, err error) {
				if !strings.Contains(err.Error(), errBroken.Error()) {
					t.Errorf("run %s: %v", run, err)
				}
				problems[run]++
			}
			done, err := f.Forget(t.Context())
			if err != nil || done.Runs != 2 || done.Failed != 1 || done.Undeleted != 1 || problems[ids[0]] != 1 || problems[ids[1]] != 1 {
				t.Errorf("%+v, %v, problems %v", done, err, problems)
			}
			if names, err := s.Removals.LeftoverObjects(t.Context(), "", 10); err != nil || len(names) != 1 || names[0] != stored {
				t.Errorf("%q, not %q: %v", names, stored, err)
			}
			s.sql(t, "DROP TRIGGER no_UPDATE")
			s.sql(t, "DROP TRIGGER no_DELETE")
			if done, err := s.forget(t, -1, rewrite); err != nil || done.Runs != 1 || done.Failed != 0 || done.Undeleted != 0 {
				t.Errorf("again: %+v, %v", done, err)
			}
			if names, err := s.Removals.LeftoverObjects(t.Context(), "", 10); err != nil || len(names) != 0 {
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
	before, err := s.Objects.OfRun(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	problems := 0
	f := &Forgetter{Registry: s.Registry, Objects: s.Dir, Users: []string{"alice"}, Rewrite: rewritten, Checked: func(int) {}}
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
	after, err := s.Objects.OfRun(t.Context(), id)
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
	if !isOf(site.StoredRun{Record: &rt.Run{Allocation: rt.Allocation{User: "a"}}}, []string{"b", "a"}) {
		t.Error("the user of the record is not looked at")
	}
}
