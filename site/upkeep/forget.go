package upkeep

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// Forgetter removes the runs of a user, or puts pseudonyms in the place of names. It may be interrupted at
// any time, and finishes when it is started again.
type Forgetter struct {
	Registry *registry.Registry
	Objects  site.ObjectStore
	Users    []string // the name of the user, and others under which the runs can be
	DryRun   bool     // changes nothing
	// Rewrite returns the texts of a run with pseudonyms. record is the complete record, nil if there is
	// none. nil: runs are removed.
	Rewrite func(run site.StoredRun, record []byte) (Rewritten, error)
	// Problem receives what could not be done to a run as it should be; the others are done.
	Problem func(run string, err error)
	// Checked is called after each run of the site.
	Checked func(runs int)
}

// Rewritten is a run with pseudonyms.
type Rewritten struct {
	Metadata, Summary json.RawMessage
	Run               *rt.Run // as in the record, or nil
	Record            []byte  // nil: the record cannot be rewritten, and is removed
}

// Forgotten counts what was done.
type Forgotten struct {
	Runs       int   // of the user
	Objects    int   // of these runs
	Bytes      int64 // of these objects
	Unfinished int   // runs whose node may deliver more, with the names
	Records    int   // that were removed because they could not be rewritten
	Unread     int   // runs that could not be read
	Failed     int   // runs that could not be changed
	Undeleted  int   // removed objects that could not be deleted in the object store
}

// Forget forgets the runs of the user.
func (f *Forgetter) Forget(ctx context.Context) (done Forgotten, err error) {
	checked := 0
	for id, err := range f.Registry.Runs.AllIDs(ctx) {
		if err == nil {
			err = f.run(ctx, id, &done)
		}
		if err != nil {
			return done, err
		}
		checked++
		f.Checked(checked)
	}
	if f.DryRun {
		return done, nil
	}
	if err := f.Registry.Live.Clear(ctx); err != nil { // nodes report again what still runs
		return done, err
	}
	return done, f.leftover(ctx, &done) // also of an earlier call that was interrupted
}

// run forgets a run if it is of the user. An error is reported, and does not stop the other runs.
func (f *Forgetter) run(ctx context.Context, id string, done *Forgotten) error {
	for try := 1; ; try++ {
		err := f.try(ctx, id, done)
		isMoved := errors.Is(err, site.ErrChanged) || errors.Is(err, site.ErrNotFound) // a new record replaces the object of the old one
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case isMoved && try < tries:
			continue
		case errors.Is(err, site.ErrDamaged):
			done.Unread++
		default:
			done.Failed++
		}
		f.Problem(id, err)
		return nil
	}
}

// try forgets a run if it is of the user and has not changed meanwhile.
func (f *Forgetter) try(ctx context.Context, id string, done *Forgotten) error {
	run, err := f.Registry.Runs.Get(ctx, id)
	if errors.Is(err, site.ErrNotFound) {
		return nil
	}
	if err != nil || !isOf(run, f.Users) {
		return err
	}
	objects, err := f.Registry.Objects.OfRun(ctx, id)
	if err != nil {
		return err
	}
	removed := false
	switch {
	case f.DryRun:
	case f.Rewrite == nil:
		err = f.Registry.Removals.RemoveRun(ctx, id)
	default:
		removed, err = f.rewrite(ctx, run, objects)
	}
	if err == nil {
		done.addRun(run, objects, removed)
	}
	return err
}

func (d *Forgotten) addRun(run site.StoredRun, objects []site.Object, removed bool) {
	d.Runs++
	d.Objects += len(objects)
	for _, o := range objects {
		d.Bytes += o.Bytes
	}
	isRunning := run.Record != nil && run.Record.State == rt.StateRunning
	if run.Finish == nil || isRunning {
		d.Unfinished++
	}
	if removed {
		d.Records++
	}
}

// isOf reports whether the record or the registration of a run names one of these users.
func isOf(run site.StoredRun, users []string) bool {
	isInRecord := run.Record != nil && slices.Contains(users, run.Record.User)
	return isInRecord || slices.Contains(users, UserOf(run.Metadata))
}

// UserOf returns the user in a registration; empty if there is none.
func UserOf(metadata json.RawMessage) string {
	var of struct {
		Tags struct {
			User string `json:"slurm_user"`
		} `json:"tags"`
	}
	if json.Unmarshal(metadata, &of) != nil {
		return ""
	}
	return of.Tags.User
}

// leftover deletes the objects that no row names any more. One that cannot be deleted stays for the next call.
func (f *Forgetter) leftover(ctx context.Context, done *Forgotten) error {
	for after := ""; ; {
		names, err := f.Registry.Removals.LeftoverObjects(ctx, after, pageRuns)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			err := f.Objects.Delete(ctx, name)
			if err == nil {
				err = f.Registry.Removals.ForgetObject(ctx, name)
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				done.Undeleted++
				run, _, _ := strings.Cut(name, "/")
				f.Problem(run, err)
			}
		}
		after = names[len(names)-1]
	}
}

// rewrite puts pseudonyms in the place of names. All rows of the run change in one transaction.
func (f *Forgetter) rewrite(ctx context.Context, run site.StoredRun, objects []site.Object) (removed bool, err error) {
	w := site.Rewrite{Old: run, Finish: run.Finish}
	for _, o := range objects {
		if o.Class == site.ClassRecord {
			w.OldRecord = o
		}
	}
	var record []byte
	if w.OldRecord.SHA256 != "" {
		record, err = f.read(ctx, w.OldRecord)
	}
	if err != nil {
		return false, fmt.Errorf("the run is not changed, because its record cannot be read: %w", err)
	}
	texts, err := f.Rewrite(run, record)
	if err != nil {
		return false, err
	}
	w.Metadata, w.Run = texts.Metadata, texts.Run
	if texts.Record != nil {
		w.Record, w.Body, err = f.store(ctx, run.ID, texts.Record)
		if err != nil {
			return false, err
		}
	}
	if w.Finish != nil {
		finish := *w.Finish
		finish.Summary, finish.RecordSum = texts.Summary, w.Record.SHA256
		w.Finish = &finish
	}
	err = f.Registry.Removals.Rewrite(ctx, w)
	if errors.Is(err, site.ErrChanged) && w.Record.Stored != "" {
		err = errors.Join(err, f.Objects.Delete(ctx, w.Record.Stored))
	}
	if err != nil {
		return false, err
	}
	return record != nil && texts.Record == nil, nil
}

func (f *Forgetter) read(ctx context.Context, o site.Object) ([]byte, error) {
	r, err := f.Registry.Objects.Open(ctx, f.Objects, o)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(r)
	return content, errors.Join(err, r.Close())
}

// store stores the bytes of a record as a receiver does.
func (f *Forgetter) store(ctx context.Context, run string, record []byte) (o site.Object, body []byte, err error) {
	sum := sha256.Sum256(record)
	o = site.Object{RunID: run, Name: site.RecordName, Class: site.ClassRecord, Bytes: int64(len(record)), SHA256: hex.EncodeToString(sum[:])}
	if len(record) <= site.MaxRow {
		return o, record, nil
	}
	o.Stored = o.NewStoredName()
	return o, nil, f.Objects.Put(ctx, o.Stored, o.Bytes, bytes.NewReader(record))
}
