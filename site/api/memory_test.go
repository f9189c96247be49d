package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// memory is a Registry and an object store in memory. It shows nothing to readers: rt-site's tests
// read from a real registry.
type memory struct {
	Reading
	NodeReports
	mu      sync.Mutex
	secret  []byte
	claims  []string
	runs    map[string]site.Run
	changed map[string]time.Time              // of a run
	rows    map[string]map[string]site.Object // by run and name
	bodies  map[string][]byte                 // by run and name
	store   map[string]stored
	fault   func(method string) error // may be nil
}

type stored struct {
	content  []byte
	modified time.Time
}

func newMemory() *memory {
	return &memory{
		runs: map[string]site.Run{}, changed: map[string]time.Time{}, rows: map[string]map[string]site.Object{},
		bodies: map[string][]byte{}, store: map[string]stored{},
	}
}

// enter locks the memory, and returns the fault of a method, or an error if there is no such run.
func (m *memory) enter(ctx context.Context, method, run string) error {
	m.mu.Lock()
	if m.fault != nil {
		if err := m.fault(method); err != nil {
			return err
		}
	}
	if _, ok := m.runs[run]; run != "" && !ok {
		return site.ErrNotFound
	}
	return ctx.Err()
}

func (m *memory) Secret(ctx context.Context, name string, n int) ([]byte, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "Secret", ""); err != nil {
		return nil, err
	}
	if m.secret == nil {
		m.secret = make([]byte, n)
		rand.Read(m.secret)
	}
	return m.secret, nil
}

func (m *memory) Claims(ctx context.Context) ([]string, error) {
	defer m.mu.Unlock()
	err := m.enter(ctx, "Claims", "")
	return slices.Clone(m.claims), err
}

func (m *memory) AddClaim(ctx context.Context, newest, claim string) error {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "AddClaim", ""); err != nil {
		return err
	}
	if append(slices.Clone(m.claims), "")[0] == newest {
		m.claims = append([]string{claim}, m.claims...)
	}
	return nil
}

func (m *memory) CreateRun(ctx context.Context, r site.Run) error {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "CreateRun", ""); err != nil {
		return err
	}
	m.runs[r.ID], m.changed[r.ID], m.rows[r.ID] = r, time.Now(), map[string]site.Object{}
	return nil
}

func (m *memory) Run(ctx context.Context, id string) (site.Run, error) {
	defer m.mu.Unlock()
	err := m.enter(ctx, "Run", id)
	return m.runs[id], err
}

func (m *memory) RunHead(ctx context.Context, id string) (site.Run, error) {
	defer m.mu.Unlock()
	err := m.enter(ctx, "RunHead", id)
	return site.Run{ID: id, Owner: m.runs[id].Owner, Finish: m.runs[id].Finish}, err
}

func (m *memory) RunIDs(ctx context.Context, after string, limit int) ([]string, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "RunIDs", ""); err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(m.runs)), func(id string) bool { return id <= after })
	return ids[:min(limit, len(ids))], nil
}

func (m *memory) OwnRunIDs(ctx context.Context, owner, after string, limit int) ([]string, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "OwnRunIDs", ""); err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Sorted(maps.Keys(m.runs)), func(id string) bool { return id <= after || m.runs[id].Owner != owner })
	return ids[:min(limit, len(ids))], nil
}

func (m *memory) PutObject(ctx context.Context, o site.Object, body []byte, record *rt.Run) (replaced string, err error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "PutObject", o.RunID); err != nil {
		return "", err
	}
	r, old := m.runs[o.RunID], m.rows[o.RunID][o.Name]
	isLate := r.Finish != nil && o.Class == site.ClassCSV
	if isLate && old.SHA256 == o.SHA256 {
		return o.Stored, nil
	}
	if isLate {
		return "", site.ErrFinished
	}
	isOld := o.Class == site.ClassRecord && o.Signed.Before(old.Signed)
	if isOld {
		return "", site.ErrOlder
	}
	if (body == nil) != (o.Stored != "") {
		return "", fmt.Errorf("object %s has %d bytes and is stored as %q", o.Name, len(body), o.Stored)
	}
	if o.Class == site.ClassRecord {
		r.Record = record
		m.runs[o.RunID] = r
	}
	m.changed[o.RunID], m.rows[o.RunID][o.Name], m.bodies[o.RunID+"/"+o.Name] = time.Now(), o, body
	return old.Stored, nil
}

func (m *memory) Objects(ctx context.Context, runID string) ([]site.Object, error) {
	defer m.mu.Unlock()
	err := m.enter(ctx, "Objects", "")
	byName := func(a, b site.Object) int { return cmp.Compare(a.Name, b.Name) }
	return slices.SortedFunc(maps.Values(m.rows[runID]), byName), err
}

func (m *memory) Body(ctx context.Context, runID, name string) ([]byte, error) {
	defer m.mu.Unlock()
	err := m.enter(ctx, "Body", runID)
	return m.bodies[runID+"/"+name], err
}

func (m *memory) FinishRun(ctx context.Context, id string, f site.Finish, inline *site.Object, body []byte) (done site.Finished, err error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "FinishRun", id); err != nil {
		return done, err
	}
	r := m.runs[id]
	isFirst := r.Finish == nil
	for _, name := range f.Keys {
		if m.rows[id][name].Class != site.ClassCSV {
			return done, fmt.Errorf("%w: %s", site.ErrMissing, name)
		}
	}
	if f.RecordSum != "" && m.rows[id][site.RecordName].SHA256 != f.RecordSum {
		return done, fmt.Errorf("%w: %s", site.ErrMissing, site.RecordName)
	}
	if old := r.Finish; old != nil {
		if old.DataSource != f.DataSource || old.CSVSHA256 != f.CSVSHA256 || !slices.Equal(old.Keys, f.Keys) {
			return done, site.ErrFinished
		}
		if inline != nil {
			done.Unused = inline.Stored
		}
	} else if r.Finished = time.Now().UTC(); inline != nil {
		m.rows[id][inline.Name], m.bodies[id+"/"+inline.Name] = *inline, body
	}
	r.Finish = &f
	m.runs[id], m.changed[id] = r, time.Now()
	done.IsFirst = isFirst
	return done, nil
}

func (m *memory) ExpireRuns(ctx context.Context, before time.Time, limit int) (stored []string, n int, err error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "ExpireRuns", ""); err != nil {
		return nil, 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		if n == limit || !m.changed[id].Before(before) {
			continue
		}
		for _, o := range m.rows[id] {
			if o.Stored != "" {
				stored = append(stored, o.Stored)
			}
		}
		delete(m.runs, id)
		delete(m.rows, id)
		n++
	}
	return stored, n, nil
}

func (m *memory) Expire(ctx context.Context, class site.Class, before time.Time, limit int) (stored []string, n int, err error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "Expire", ""); err != nil {
		return nil, 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		r := m.runs[id]
		for name, o := range m.rows[id] {
			isOld := r.Finish != nil && r.Finished.Before(before) && o.Created.Before(before)
			if o.Class != class || !isOld || n == limit {
				continue
			}
			delete(m.rows[id], name)
			n++
			if o.Stored != "" {
				stored = append(stored, o.Stored)
			}
			if !slices.Contains(r.Expired, class) {
				r.Expired = append(r.Expired, class)
				m.runs[id] = r
			}
		}
	}
	return stored, n, nil
}

func (m *memory) Put(ctx context.Context, name string, size int64, body io.Reader) error {
	content, err := io.ReadAll(body)
	defer m.mu.Unlock()
	if fault := m.enter(ctx, "Put", ""); fault != nil {
		return fault
	}
	if int64(len(content)) != size {
		return fmt.Errorf("object %s has %d bytes of %d", name, len(content), size)
	}
	m.store[name] = stored{content, time.Now()}
	return err
}

func (m *memory) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "Get", ""); err != nil {
		return nil, err
	}
	s, ok := m.store[name]
	if !ok {
		return nil, site.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(s.content)), nil
}

func (m *memory) Delete(ctx context.Context, name string) error {
	defer m.mu.Unlock()
	if err := m.enter(ctx, "Delete", ""); err != nil {
		return err
	}
	if _, isLimited := ctx.Deadline(); !isLimited {
		return errors.New("a request without a limit of time")
	}
	delete(m.store, name)
	return nil
}

func (m *memory) List(_ context.Context, prefix string) iter.Seq2[site.Stored, error] {
	m.mu.Lock()
	all := maps.Clone(m.store)
	m.mu.Unlock()
	return func(yield func(site.Stored, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			s := site.Stored{Name: name, Bytes: int64(len(all[name].content)), Modified: all[name].modified}
			if strings.HasPrefix(name, prefix) && !yield(s, nil) {
				return
			}
		}
	}
}

// bytes is the size of all that is stored.
func (m *memory) bytes() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.bodies {
		n += len(b)
	}
	for _, s := range m.store {
		n += len(s.content)
	}
	for _, r := range m.runs {
		n += len(r.Metadata)
	}
	return n
}

// objects is the number of objects in the object store, without the marker.
func (m *memory) objects() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(m.store)
	if _, isMarked := m.store[markerName]; isMarked {
		n--
	}
	return n
}

// registered is the number of runs.
func (m *memory) registered() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.runs)
}
