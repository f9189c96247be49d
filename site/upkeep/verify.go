// Package upkeep checks the data of a site, and removes from it what must not stay. It works next to
// receivers that use the same registry and object store.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// Verifier checks a site. Its memory is bounded by one run.
type Verifier struct {
	Registry *registry.Registry
	Objects  site.ObjectStore
	// RunOf reads a complete record to its end, and returns its run.
	RunOf func(record io.Reader) (rt.Run, error)
	// Damaged receives the damage that is found.
	Damaged func(Damage)
	// Unread receives the objects that could not be read, such as for a lost connection: they are not checked.
	Unread func(run, object string, err error)
	// Checked is called after each run.
	Checked func(runs int)
}

// Damage is something that is not as it was acknowledged.
type Damage struct {
	Run     string `json:"run_id,omitempty"` // empty: the registry itself
	Job     string `json:"job,omitempty"`    // such as 4711 or 4711_3, if it is known
	Node    string `json:"node,omitempty"`
	Object  string `json:"object,omitempty"`
	Stored  string `json:"stored,omitempty"` // name in the object store; empty: the registry has the object
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`

	unread error // the object could not be read, which is no damage
}

// Totals is what a check has read.
type Totals struct {
	Runs    int   `json:"runs"`
	Objects int   `json:"objects"`
	Bytes   int64 `json:"bytes"`   // of the objects
	Damaged int   `json:"damaged"` // calls of Damaged
	// Unchecked are the objects that could not be read.
	Unchecked int `json:"unchecked_objects"`
	// Unnamed are objects in the object store that are older than a day and that no run names, and
	// UnnamedBytes their size. They are no damage: a receiver removes them.
	Unnamed      int   `json:"unnamed_objects"`
	UnnamedBytes int64 `json:"unnamed_bytes"`
}

const (
	pageRuns = 1000
	// unnamedAge is the age from which on an object that no run names counts. An upload that has not
	// been answered yet is younger.
	unnamedAge = 24 * time.Hour
	// tries is how often a run is read that changes while it is checked.
	tries = 10
	// readTries is how often an object is read that cannot be read to its end.
	readTries = 3
	// maxUnread is the number of objects without one in between that can be read after which a check ends: the
	// object store cannot be reached.
	maxUnread = 20
)

// What is to be done.
const (
	remedyObject   = "restore it from a backup; a node keeps its runs for spool.retain after their delivery"
	remedyDatabase = "restore the registry from a backup"
	remedyRow      = "report this as a bug of rt-site; the runs themselves are checked one by one"
)

// Verify checks the database, each object with its size and checksum, each record and its run, and
// the number of rows of each CSV. It fails if it could not read the database, the list of objects,
// or many objects in a row. Damage and single unreadable objects are no errors.
func (v *Verifier) Verify(ctx context.Context) (Totals, error) {
	c := check{Verifier: v}
	problems, err := v.Registry.Check(ctx)
	if err != nil {
		return c.Totals, err
	}
	for _, problem := range problems {
		remedy := remedyRow
		if strings.Contains(problem, "damaged") {
			remedy = remedyDatabase
		}
		c.report(Damage{Problem: problem, Remedy: remedy})
	}
	err = c.runs(ctx)
	if errors.Is(err, site.ErrDamaged) { // the rest of the table cannot be listed
		c.report(Damage{Problem: err.Error(), Remedy: remedyDatabase})
		return c.Totals, nil
	}
	if err == nil {
		err = c.unnamed(ctx, time.Now().Add(-unnamedAge))
	}
	return c.Totals, err
}

// check is a check in progress.
type check struct {
	*Verifier
	Totals
	unread int // objects that could not be read, since one that could
}

func (c *check) report(d Damage) {
	if d.unread != nil {
		c.Unchecked++
		c.Verifier.Unread(d.Run, d.Object, d.unread)
		return
	}
	c.Totals.Damaged++
	c.Verifier.Damaged(d)
}

func (c *check) runs(ctx context.Context) error {
	for id, err := range c.Registry.Runs.AllIDs(ctx) {
		if err == nil {
			err = c.run(ctx, id)
		}
		if err != nil {
			return err
		}
		if c.Checked != nil {
			c.Checked(c.Runs)
		}
	}
	return nil
}

// state is a run with its objects.
type state struct {
	run     site.StoredRun
	objects []site.Object
}

// run checks a run. A receiver may change it meanwhile: then it is checked again.
func (c *check) run(ctx context.Context, id string) error {
	for try := 1; ; try++ {
		before, err := c.state(ctx, id)
		if errors.Is(err, site.ErrNotFound) {
			return nil // it was removed
		}
		if errors.Is(err, site.ErrDamaged) {
			c.Runs++
			c.report(Damage{Run: id, Problem: err.Error(), Remedy: remedyDatabase})
			return nil
		}
		if err != nil {
			return err
		}
		found, err := c.problems(ctx, before)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			after, err := c.state(ctx, id)
			isSame := err == nil && reflect.DeepEqual(before, after)
			if !isSame && try < tries {
				continue
			}
			found = slices.DeleteFunc(found, func(d Damage) bool { return before.object(d) != after.object(d) })
		}
		for _, d := range found {
			c.report(d)
		}
		c.Runs++
		c.Totals.Objects += len(before.objects)
		for _, o := range before.objects {
			c.Bytes += o.Bytes
		}
		return nil
	}
}

func (c *check) state(ctx context.Context, id string) (s state, err error) {
	s.run, err = c.Registry.Runs.Get(ctx, id)
	if err == nil {
		s.objects, err = c.Registry.Objects.OfRun(ctx, id)
	}
	return s, err
}

// object returns the object of a damage; the zero value if it has no row.
func (s state) object(d Damage) (o site.Object) {
	for _, one := range s.objects {
		if one.Name == d.Object {
			o = one
		}
	}
	return o
}

// problems returns the damage of a run.
func (c *check) problems(ctx context.Context, s state) (found []Damage, err error) {
	add := func(o site.Object, remedy, problem string, unread error) {
		d := Damage{Run: s.run.ID, Object: o.Name, Stored: o.Stored, Problem: problem, Remedy: remedy, unread: unread}
		if s.run.Record != nil {
			d.Job, d.Node = s.run.Record.Label(), s.run.Record.Node
		}
		found = append(found, d)
	}
	for _, name := range missing(s) {
		add(site.Object{Name: name}, remedyDatabase, "it has no row in the registry", nil)
	}
	for _, o := range s.objects {
		problem, err := c.object(ctx, s.run, o)
		switch {
		case errors.Is(err, errUnread):
			add(o, "", "", err)
			c.unread++
		case err != nil:
			return nil, err
		default:
			c.unread = 0
		}
		if c.unread > maxUnread {
			return nil, fmt.Errorf("read object %s of run %s: %w; %d objects before it could not be read either: check the object store, and start this again", o.Name, s.run.ID, err, maxUnread)
		}
		if problem != "" {
			add(o, remedyObject, problem, nil)
		}
	}
	return found, nil
}

// missing returns the objects that a run names and does not have.
func missing(s state) (names []string) {
	has := map[string]site.Class{}
	for _, o := range s.objects {
		has[o.Name] = o.Class
	}
	want := func(name string, class site.Class) {
		if has[name] != class && !slices.Contains(s.run.Expired, class) {
			names = append(names, name)
		}
	}
	if s.run.Record != nil {
		want(site.RecordName, site.ClassRecord)
	}
	if f := s.run.Finish; f != nil {
		for _, key := range f.Keys {
			want(key, site.ClassCSV)
		}
		if f.CSVSHA256 != "" {
			want(site.InlineName, site.ClassInline)
		}
	}
	return names
}

// unnamed counts the objects that are older than a time and that no run names.
func (c *check) unnamed(ctx context.Context, before time.Time) error {
	for o, err := range c.Registry.Objects.Unnamed(ctx, c.Verifier.Objects, before) {
		if err != nil {
			return err
		}
		c.Unnamed++
		c.UnnamedBytes += o.Bytes
	}
	return nil
}
