package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// update is a change of a partition.
type update struct {
	partition string
	changed   []site.Changed
	remove    ids
	users     []string // the runs of these users are removed

	files   []files
	entries map[int][]entry           // by the number of the file
	replace map[string][]site.Changed // registrations of runs that a file has, by name, the best first
	drop    map[string]bool           // names
	stays   ids                       // runs with another name now, whose record cannot be read
	touched map[int]bool              // numbers of the files that change
	fresh   [][]site.Changed          // registrations of runs that no file has, the best first
	settled []site.Changed            // registrations without anything to write
}

// entry is a row of runs.
type entry struct {
	id, name, state, user, node string
	samples                     int // as the row has it
	order
}

// order is the order of runs in a file.
type order struct {
	hasNoJob bool
	job      int64
	start    int64 // microseconds since 1970
	name     string
}

func compareOrder(a, b order) int {
	if a.hasNoJob != b.hasNoJob {
		if a.hasNoJob {
			return 1
		}
		return -1
	}
	return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.start, b.start), cmp.Compare(a.name, b.name))
}

func orderOf(c *site.Changed) order {
	id, ok := c.JobID.Get()
	return order{!ok, integer(id).Int64(), c.Start.UnixMicro(), c.Name}
}

// update changes a partition: it plans which files change, and writes them one after the other.
func (l *Lake) update(ctx context.Context, u *update, done *Totals) (err error) {
	defer func() { err = errors.Join(err, l.ahead.close()) }()
	if err := l.plan(ctx, u, done); err != nil {
		return fmt.Errorf("the partition %s of the lake: %w", u.partition, err)
	}
	last := 0
	for _, f := range u.files {
		last = f.number
		if !u.touched[f.number] {
			continue
		}
		if err := l.rewrite(ctx, u, f, done); err != nil {
			return fmt.Errorf("the file %s of the lake: %w", objectName("", u.partition, f.number), err)
		}
	}
	for len(u.fresh) > 0 {
		last++
		if err := l.rewrite(ctx, u, files{number: last, runs: -1, samples: -1}, done); err != nil {
			return fmt.Errorf("the file %s of the lake: %w", objectName("", u.partition, last), err)
		}
	}
	return l.written(ctx, u.settled)
}

// plan reads which runs the files have, and decides which of them change.
func (l *Lake) plan(ctx context.Context, u *update, done *Totals) error {
	u.entries, u.replace, u.drop, u.touched = map[int][]entry{}, map[string][]site.Changed{}, map[string]bool{}, map[int]bool{}
	var err error
	u.files, err = l.list(ctx, u.partition)
	if err != nil {
		return err
	}
	for i, f := range u.files {
		if f.runs < 0 { // a writer was killed before it wrote the runs of a new file: they replace these samples
			u.files[i].samples, u.touched[f.number] = 0, true
			continue
		}
		u.entries[f.number], err = l.readEntries(ctx, objectName(tableRuns, u.partition, f.number))
		if err != nil {
			return err
		}
	}
	if err := l.dropRenamed(ctx, u, done); err != nil {
		return err
	}
	u.assign()
	isRemoval := len(u.remove) > 0 || len(u.users) > 0
	isUnchanged := len(u.fresh) == 0 && !isRemoval
	if isUnchanged || len(u.files) == 0 {
		return nil
	}
	last := u.files[len(u.files)-1]
	if u.touched[last.number] {
		return nil
	}
	hasRoom := len(u.fresh) > 0 && last.samples < l.FileBytes
	if hasRoom {
		u.touched[last.number] = true
		return nil
	}
	// A writer that was killed may have put samples into the last file that belong to no run, or to one for another file.
	lost, err := l.hasLostSamples(ctx, u, last)
	if lost {
		u.touched[last.number] = true
	}
	return err
}

// found is where a run is.
type found struct {
	number int
	entry
}

// dropRenamed drops the rows of runs that have another name now, and of those that are removed.
func (l *Lake) dropRenamed(ctx context.Context, u *update, done *Totals) (err error) {
	byID := map[string]found{}
	for number, list := range u.entries {
		for _, e := range list {
			byID[e.id] = found{number, e}
			isGone := u.remove[e.id] || slices.Contains(u.users, e.user)
			if isGone {
				u.drop[e.name], u.touched[number] = true, true
			}
		}
	}
	isRenamed := func(c *site.Changed) bool {
		f, isThere := byID[c.ID]
		return isThere && f.name != c.Name
	}
	for _, c := range u.changed {
		if isRenamed(&c) {
			u.stays = u.stays.with(c.ID)
		}
	}
	u.changed, err = l.readable(ctx, u.changed, isRenamed, done)
	for _, c := range u.changed {
		if isRenamed(&c) {
			f := byID[c.ID]
			u.drop[f.name], u.touched[f.number] = true, true
			delete(u.stays, c.ID)
		}
	}
	return err
}

// assign decides for each registration of a run whether it may replace the run in a file, is new, or is not written.
func (u *update) assign() {
	there := map[string]found{} // by name
	for number, list := range u.entries {
		for _, e := range list {
			if !u.drop[e.name] {
				there[e.name] = found{number, e}
			}
		}
	}
	byName := map[string][]site.Changed{}
	for _, c := range u.changed {
		f, isThere := there[c.Name]
		old := copyOf(f.id, rt.State(f.state))
		isLess := isThere && f.id != c.ID && !copyOf(c.ID, c.State).Better(old)
		if isLess {
			u.settled = append(u.settled, c)
			continue
		}
		byName[c.Name] = append(byName[c.Name], c)
	}
	for name, list := range byName {
		slices.SortFunc(list, func(a, b site.Changed) int {
			if copyOf(a.ID, a.State).Better(copyOf(b.ID, b.State)) {
				return -1
			}
			return 1
		})
		if f, isThere := there[name]; isThere {
			u.replace[name], u.touched[f.number] = list, true
		} else {
			u.fresh = append(u.fresh, list)
		}
	}
	slices.SortFunc(u.fresh, func(a, b []site.Changed) int { return compareOrder(orderOf(&a[0]), orderOf(&b[0])) })
}

// copyOf is a registration of a run with a record: the lake has no others.
func copyOf(id string, state rt.State) *rt.Copy {
	return &rt.Copy{State: state, HasRecord: true, IsAtSite: true, Place: id}
}

// fetch opens an object as a file.
func (l *Lake) fetch(ctx context.Context, name string) (*os.File, error) {
	body, err := l.Store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if f, isFile := body.(*os.File); isFile {
		return f, nil
	}
	defer body.Close()
	f, err := os.CreateTemp(l.temp, "old-*")
	if err != nil {
		return nil, err
	}
	err = os.Remove(f.Name()) // it goes with its last descriptor
	if err == nil {
		_, err = io.Copy(f, body)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copy %s: %w", name, err), f.Close())
	}
	return f, nil
}

// readEntries reads the rows of runs that decide where a run is.
func (l *Lake) readEntries(ctx context.Context, name string) (list []entry, err error) {
	f, err := l.fetch(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := openTable(name, f, l.runs.schema)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	list = make([]entry, t.rows)
	for column, set := range map[string]func(*entry, parquet.Value){
		"id":        func(e *entry, v parquet.Value) { e.id = v.String() },
		"run_name":  func(e *entry, v parquet.Value) { e.name, e.order.name = v.String(), v.String() },
		"state":     func(e *entry, v parquet.Value) { e.state = v.String() },
		"node_name": func(e *entry, v parquet.Value) { e.node = nullable(v) },
		"user_name": func(e *entry, v parquet.Value) { e.user = nullable(v) },
		"job_id":    func(e *entry, v parquet.Value) { e.hasNoJob, e.job = v.IsNull(), v.Int64() },
		"started":   func(e *entry, v parquet.Value) { e.start = v.Int64() },
		"samples":   func(e *entry, v parquet.Value) { e.samples = int(v.Int64()) },
	} {
		i := 0
		err := t.each(l.runs.schema, column, func(v parquet.Value) {
			set(&list[i], v)
			i++
		})
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return list, nil
}

func nullable(v parquet.Value) string {
	if v.IsNull() {
		return ""
	}
	return v.String()
}

// samplesOf is the number of rows of a run in samples.
type samplesOf struct {
	name string
	rows int
}

// readRanges reads which run each row of samples belongs to.
func (l *Lake) readRanges(name string, f *os.File) (list []samplesOf, err error) {
	t, err := openTable(name, f, l.samples.schema)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	err = t.each(l.samples.schema, "run_name", func(v parquet.Value) {
		isSame := len(list) > 0 && list[len(list)-1].name == string(v.ByteArray())
		if !isSame {
			list = append(list, samplesOf{name: v.String()})
		}
		list[len(list)-1].rows++
	})
	return list, err
}

// hasLostSamples reports whether a file of samples has runs that its file of runs does not have.
func (l *Lake) hasLostSamples(ctx context.Context, u *update, f files) (bool, error) {
	if f.samples < 0 {
		return false, nil
	}
	name := objectName(tableSamples, u.partition, f.number)
	file, err := l.fetch(ctx, name)
	if err != nil {
		return false, err
	}
	defer file.Close()
	list, err := l.readRanges(name, file)
	known := map[string]bool{}
	for _, e := range u.entries[f.number] {
		known[e.name] = true
	}
	return slices.ContainsFunc(list, func(s samplesOf) bool { return !known[s.name] }), err
}
