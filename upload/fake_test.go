package upload_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
)

// killer breaks off a drain at its n-th call of anything outside. From then on every call fails, as
// for a dead process.
type killer struct {
	mu    sync.Mutex
	calls int
	at    int  // 0: never
	late  bool // the call takes effect, and its answer is lost
	dead  bool
	kill  context.CancelFunc
}

var errKilled = errors.New("killed")

// step runs one call under the killer; k may be nil.
func (k *killer) step(effect func() error) error {
	if k == nil {
		return effect()
	}
	k.mu.Lock()
	k.calls++
	dies := k.at > 0 && k.calls == k.at
	was := k.dead
	k.dead = k.dead || dies
	if dies {
		k.kill()
	}
	k.mu.Unlock()
	if was || dies && !k.late {
		return errKilled
	}
	if err := effect(); err != nil {
		return err
	}
	if dies {
		return errKilled
	}
	return nil
}

// fakeRun is a spooled run in memory.
type fakeRun struct {
	killer *killer

	run       rt.Run
	snaps     []rt.Snapshot
	reg       rt.Registration
	known     bool
	batches   []rt.Batch
	events    []rt.Event
	delivered bool
	opened    int
	closed    int
	readErr   error
	poison    bool // reading it brings the program down
	padding   int  // bytes of the record in addition
	figures   string
	locked    int // how often the file is locked when it is to be changed
}

func (f *fakeRun) Run() rt.Run   { return f.run }
func (f *fakeRun) Host() rt.Host { return rt.Host{HostName: "n1", VCPUs: rt.Some[uint64](2)} }

func (f *fakeRun) Registration() (rt.Registration, bool, error) { return f.reg, f.known, nil }
func (f *fakeRun) SaveRegistration(r rt.Registration) error {
	return f.killer.step(func() error {
		if f.locked > 0 {
			f.locked--
			return fmt.Errorf("save the registration: %w", spool.ErrBusy)
		}
		f.reg, f.known = r, true
		return nil
	})
}
func (f *fakeRun) Batches() ([]rt.Batch, error) { return slices.Clone(f.batches), nil }
func (f *fakeRun) SealBatch(b rt.Batch) error {
	return f.killer.step(func() error {
		if b.Number <= len(f.batches) {
			f.batches[b.Number-1] = b
			return nil
		}
		last := int64(1)
		if n := len(f.batches); n > 0 {
			last = f.batches[n-1].LastSeq
		}
		if b.Number != len(f.batches)+1 || b.FirstSeq != last+1 || b.LastSeq < b.FirstSeq {
			return fmt.Errorf("batch %+v after %d that end at %d", b, len(f.batches), last)
		}
		f.batches = append(f.batches, b)
		return nil
	})
}
func (f *fakeRun) MarkUploaded(n int, at time.Time) error {
	return f.killer.step(func() error { f.batches[n-1].UploadedAt = at; return nil })
}
func (f *fakeRun) LastSeq() (int64, error) {
	if len(f.snaps) == 0 {
		return 0, nil
	}
	return f.snaps[len(f.snaps)-1].Seq, nil
}

// Rates hands out one snapshot again and again, as a real reader may.
func (f *fakeRun) Rates(ctx context.Context, from, to int64) iter.Seq2[*rt.Snapshot, error] {
	return func(yield func(*rt.Snapshot, error) bool) {
		var shared rt.Snapshot
		i, _ := slices.BinarySearchFunc(f.snaps, from, func(s rt.Snapshot, seq int64) int { return int(s.Seq - seq) })
		for ; i < len(f.snaps) && f.snaps[i].Seq <= to; i++ {
			if f.poison {
				var none []int
				_ = none[i]
			}
			if f.readErr != nil {
				yield(nil, f.readErr)
				return
			}
			shared = f.snaps[i]
			if !yield(&shared, nil) {
				return
			}
		}
	}
}

// WriteRecord writes what a finish and a record must agree about.
func (f *fakeRun) WriteRecord(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, f.record())
	for n := 0; n < f.padding && err == nil; n += 1 << 20 {
		_, err = w.Write(make([]byte, 1<<20))
	}
	return err
}
func (f *fakeRun) record() string {
	return fmt.Sprintf("record of %s: %d snapshots, outcome %q, %s", f.run.FileStem(), len(f.snaps), f.run.Outcome, upload.Status(&f.run))
}
func (f *fakeRun) Figures(context.Context) ([]byte, error) {
	if f.figures != "" {
		return []byte(f.figures), nil
	}
	return fmt.Appendf(nil, `{"elapsed_secs":%d}`, len(f.snaps)), nil
}
func (f *fakeRun) MarkDelivered(time.Time) error {
	return f.killer.step(func() error {
		if f.locked > 0 {
			f.locked--
			return fmt.Errorf("mark the run delivered: %w", spool.ErrBusy)
		}
		f.delivered = true
		return nil
	})
}
func (f *fakeRun) Events() ([]rt.Event, error) { return f.events, nil }

func (f *fakeRun) AddEvent(e rt.Event) error {
	return f.killer.step(func() error { f.events = append(f.events, e); return nil })
}
func (f *fakeRun) Close() error { f.closed++; return nil }

// fakeDir is a spool in memory.
type fakeDir struct {
	mu    sync.Mutex
	runs  map[string]*fakeRun
	extra []upload.Entry
	order []string // in which runs were opened
}

func (d *fakeDir) Runs(context.Context) ([]upload.Entry, error) {
	list := slices.Clone(d.extra)
	for name, r := range d.runs {
		if !r.delivered {
			list = append(list, upload.Entry{Name: name, Start: r.run.Start})
		}
	}
	return list, nil
}

func (d *fakeDir) Open(name string) (upload.Spooled, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.order = append(d.order, name)
	d.runs[name].opened++
	return d.runs[name], nil
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newRun makes a run of n snapshots. Some lack counters, as when a source failed,
// and from the 20th on some are thinned out.
func newRun(job uint64, n int) *fakeRun {
	r := &fakeRun{run: rt.Run{
		Identity:   rt.Identity{Cluster: "c", JobID: rt.Some(job), Node: "n1", Start: start.Add(time.Duration(job) * time.Second)},
		Allocation: rt.Allocation{Scheduler: "slurm"},
		Meta:       rt.Metadata{JobName: "job " + strconv.FormatUint(job, 10), Tags: map[string]string{"slurm_user": "anna"}},
		Ending:     rt.Ending{End: start.Add(time.Hour), State: rt.StateEnded, ExitCode: rt.Some[int64](0)},
	}}
	for i := range n {
		seq := int64(i + 1)
		if i >= 20 && i%5 == 2 && i != n-1 {
			continue
		}
		s := snapshot(seq)
		if i > 0 && i != n-1 && i%7 == 3 {
			s.Job.CPUUsage.Clear()
			s.Job.CPUUser.Clear()
			s.Node.NetRxBytes.Clear()
		}
		r.snaps = append(r.snaps, s)
	}
	return r
}

func snapshot(seq int64) rt.Snapshot {
	v := uint64(seq)
	s := rt.Snapshot{Seq: seq, Wall: start.UnixNano() + seq*1e9, Boot: seq * 1e9}
	s.Node.NetRxBytes.Set(1000 + v*v*37)
	s.Node.NetTxBytes.Set(v * 1500)
	s.Node.MemFree.Set(8 << 30)
	s.Node.SpaceTotal.Set(100e9)
	s.Node.SpaceAvailable.Set(40e9 - v*4096)
	j := &s.Job
	j.Phase = rt.JobPresent
	j.CPUUsage.Set(5000 + v*999_371)
	j.CPUUser.Set(4000 + v*900_137)
	j.CPUSystem.Set(1000 + v*99_234)
	j.MemCurrent.Set(1<<30 + v*4096)
	j.File.Set(1 << 28)
	j.Pids.Set(3)
	j.IOReadBytes.Set(v * 8192)
	j.IOWriteBytes.Set(v * v * 4096)
	return s
}

// fakeClient is a receiver's API in memory, and its object store. It knows only registered runs,
// refuses to close a run twice, and hides a closed run. If it takes records, it accepts a repeated
// finish with the same rows and no record or the stored record, and refuses another record. It
// refuses a finish that names a missing object.
type fakeClient struct {
	mu         sync.Mutex
	killer     *killer
	life       time.Duration                  // of credentials; 0: no end is known
	fault      func(what string, n int) error // in the place of the request
	after      func(what string, n int) error // in the place of the answer; may be nil
	closedAs   int                            // status of a second finish; 409 when 0
	takes      bool                           // complete records
	hides      bool                           // closed runs, even if it takes records
	known      []string                       // ids of runs that are registered
	calls      map[string]int
	registered int
	finished   map[string]upload.Finish
	objects    map[string][]byte
	creds      []upload.Credentials // with which objects were put
	busy, peak int
	slow       time.Duration
}

// request is one request; do is its effect.
func (c *fakeClient) request(ctx context.Context, what string, do func() error) error {
	return c.killer.step(func() error {
		n, err := c.enter(ctx, what)
		if err != nil {
			return err
		}
		c.mu.Lock()
		err = do()
		c.mu.Unlock()
		if err == nil && c.after != nil {
			err = c.after(what, n)
		}
		return err
	})
}

func (c *fakeClient) enter(ctx context.Context, what string) (n int, err error) {
	c.mu.Lock()
	if c.calls == nil {
		c.calls, c.finished, c.objects = map[string]int{}, map[string]upload.Finish{}, map[string][]byte{}
	}
	c.calls[what]++
	n = c.calls[what]
	c.busy++
	c.peak = max(c.peak, c.busy)
	c.mu.Unlock()
	select {
	case <-time.After(c.slow):
	case <-ctx.Done():
		return n, upload.NoAnswer(what, ctx.Err())
	}
	c.mu.Lock()
	c.busy--
	c.mu.Unlock()
	if c.fault != nil {
		return n, c.fault(what, n)
	}
	return n, nil
}

func (c *fakeClient) cred() upload.Credentials {
	cred := upload.Credentials{AccessKey: fmt.Sprint("key", c.calls["refresh"]), SecretKey: "s"}
	if c.life > 0 {
		cred.Expiration = time.Now().Add(c.life)
	}
	return cred
}

func (c *fakeClient) Endpoint() string { return "http://fake" }

func (c *fakeClient) Register(ctx context.Context, _ rt.Run, _ rt.Host) (reg upload.Registered, err error) {
	err = c.request(ctx, "register", func() error {
		c.registered++
		id := fmt.Sprint("r", c.registered)
		c.known = append(c.known, id)
		reg = upload.Registered{Dialect: upload.DialectSpec, RemoteID: id, UploadURIPrefix: "s3://b/p", Record: c.takes, Credentials: c.cred()}
		return nil
	})
	return reg, err
}

// isOpen returns the API's own 404 for a run that is closed or was never registered.
func (c *fakeClient) isOpen(id string) error {
	_, isClosed := c.finished[id]
	isHidden := isClosed && (c.hides || !c.takes)
	if isHidden || !slices.Contains(c.known, id) {
		return own(http.StatusNotFound)
	}
	return nil
}

func (c *fakeClient) Refresh(ctx context.Context, id string) (cred upload.Credentials, err error) {
	err = c.request(ctx, "refresh", func() error {
		cred = c.cred()
		return c.isOpen(id)
	})
	return cred, err
}

func (c *fakeClient) Finish(ctx context.Context, f upload.Finish) error {
	return c.request(ctx, "finish", func() error {
		before, isClosed := c.finished[f.RemoteID]
		isSame := slices.Equal(before.URIs, f.URIs) && bytes.Equal(before.CSV, f.CSV)
		isRepeatable := c.takes && !c.hides && isSame
		if isClosed && !isRepeatable {
			return own(cmp.Or(c.closedAs, http.StatusConflict))
		}
		if err := c.isOpen(f.RemoteID); err != nil {
			return err
		}
		for _, uri := range f.URIs {
			if _, isThere := c.objects[uri]; !isThere {
				return own(http.StatusUnprocessableEntity)
			}
		}
		if f.RecordSHA256 != "" && f.RecordSHA256 != c.recordSum(f.RemoteID) {
			return own(http.StatusUnprocessableEntity)
		}
		c.finished[f.RemoteID] = f
		return nil
	})
}

func (c *fakeClient) Put(ctx context.Context, uri string, cred upload.Credentials, body []byte) error {
	what := "put"
	if strings.HasSuffix(uri, "/"+upload.RecordName) {
		what = "record"
	}
	return c.request(ctx, what, func() error {
		c.objects[uri] = slices.Clone(body)
		c.creds = append(c.creds, cred)
		return nil
	})
}

// recordSum returns the SHA-256 of the stored record of a run, empty if there is none.
func (c *fakeClient) recordSum(id string) string {
	body, ok := c.objects["s3://b/p/"+id+"/"+upload.RecordName]
	if !ok {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(body))
}

// forget loses all runs that are not closed.
func (c *fakeClient) forget() { c.known = nil }

// own is a refusal of the API itself.
func own(status int) error {
	return &upload.Error{Op: "POST x", Kind: upload.Permanent, Status: status, Own: true, Err: errors.New("own refusal")}
}
