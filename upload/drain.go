package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/spool"
)

// DrainOptions are the options of a drain. Zero values mean the defaults.
type DrainOptions struct {
	Concurrency int           // runs at a time; 4
	Deadline    time.Duration // for the whole drain, after the jitter; none
	Jitter      time.Duration // the drain first waits for a random part of this time; none
	BatchRows   int           // rows per object; 10,000
	Scope       rt.Scope      // scope of the rows of runs that are not registered yet; rt.ScopeJob
	Tries       int           // most requests per step; 5
	Live        bool          // also upload the committed rows of runs that are still tracked; these runs are not closed
	// Begin is called once with the number of runs to deliver. Done is called for each run, one
	// call at a time; err is nil for a delivered run. Both may be nil.
	Begin func(runs int)
	Done  func(run string, err error)
}

func (o DrainOptions) withDefaults() DrainOptions {
	o.Concurrency, o.BatchRows, o.Tries = cmp.Or(o.Concurrency, 4), cmp.Or(o.BatchRows, 10_000), cmp.Or(o.Tries, 5)
	o.Scope = cmp.Or(o.Scope, rt.ScopeJob)
	return o
}

// Directory is the spool of a Drain. Several goroutines may call its methods.
type Directory interface {
	// Runs lists the runs that are not delivered yet.
	Runs(ctx context.Context) ([]Entry, error)
	// Open opens a ready run. An error means that it cannot be read.
	Open(name string) (Spooled, error)
}

// Entry is one run of a Directory.
type Entry struct {
	Name  string    // of the spool file
	Start time.Time // the oldest runs are delivered first
	Live  bool      // its tracker still writes it
	// Wanted: the receiver wants the record of this live run so far, also without DrainOptions.Live.
	Wanted bool
	Err    error // why it cannot be read: the drain reports it and continues with the others
}

type drainer struct {
	client Client
	putter Putter
	opts   DrainOptions
	dir    Directory

	api, store *endpoint
	stop       context.CancelCauseFunc

	mu     sync.Mutex
	sum    Summary
	locked []Entry // runs whose files were locked, to be retried after all others
	last   bool    // the retry of locked has begun
}

// Drain delivers all runs that are ready, the oldest first. A run that ends during the drain is
// left to the next one. If all runs are delivered, the error is nil. Otherwise it wraps ErrConfig,
// ErrTemporary or ErrDamaged, or it is the error of dir.Runs. The summary is valid in every case.
func Drain(ctx context.Context, dir Directory, client Client, putter Putter, opts DrainOptions) (Summary, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	d := newDrainer(client, putter, opts, stop)
	d.dir, d.sum.Problems = dir, []Problem{}
	if opts.Jitter > 0 {
		recovery.Pause(ctx, rand.N(opts.Jitter))
	}
	if ctx.Err() != nil {
		return d.sum, fmt.Errorf("%w: %w", ErrTemporary, context.Cause(ctx))
	}
	if opts.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, opts.Deadline, &stopped{kind: ErrTemporary, err: errors.New("the deadline is over")})
		defer cancel()
	}
	started := time.Now()
	d.sum.Started = started.UTC()
	entries, err := dir.Runs(ctx)
	if err != nil {
		return d.sum, fmt.Errorf("list the spool: %w", err)
	}
	d.run(ctx, d.readyRuns(entries))
	d.sum.ElapsedSecs = time.Since(started).Seconds()
	return d.sum, d.sum.result(ctx)
}

func newDrainer(client Client, putter Putter, opts DrainOptions, stop context.CancelCauseFunc) *drainer {
	d := &drainer{client: client, putter: putter, opts: opts.withDefaults(), stop: stop}
	server := func(name string) *endpoint {
		return &endpoint{
			name: name, tries: uint(d.opts.Tries),
			down: func(err error) { stop(&stopped{kind: ErrTemporary, err: err}) },
		}
	}
	d.api, d.store = server("the endpoint "+client.Endpoint()), server("the object store")
	return d
}

// readyRuns returns the entries to deliver, the oldest first. It counts the others in the summary.
func (d *drainer) readyRuns(entries []Entry) []Entry {
	var ready []Entry
	for _, e := range entries {
		switch {
		case isBusy(e.Err), spool.IsIntact(e.Err):
			d.sum.Failed++
			d.sum.addProblem(e.Name, e.Err)
		case e.Err != nil:
			d.sum.Damaged++
			d.sum.addProblem(e.Name, e.Err)
		case e.Live && !d.opts.Live && !e.Wanted:
			d.sum.Live++
		default:
			ready = append(ready, e)
		}
	}
	slices.SortStableFunc(ready, func(a, b Entry) int { return a.Start.Compare(b.Start) })
	return ready
}

func (d *drainer) run(ctx context.Context, ready []Entry) {
	if d.opts.Begin != nil {
		d.opts.Begin(len(ready))
	}
	d.deliverRuns(ctx, ready)
	// Another process, for example of the job's owner, may have locked a file. The other
	// runs did not wait for this lock, and the process may have released it by now.
	d.last = true
	d.deliverRuns(ctx, d.locked)
	if ctx.Err() != nil && d.sum.Waiting > 0 {
		d.sum.addProblem("", context.Cause(ctx))
	}
}

// deliverRuns tries once to deliver each run.
func (d *drainer) deliverRuns(ctx context.Context, ready []Entry) {
	work := make(chan Entry)
	var workers sync.WaitGroup
	for range min(d.opts.Concurrency, len(ready)) {
		workers.Go(func() { d.work(ctx, work) })
	}
	for _, e := range ready {
		work <- e
	}
	close(work)
	workers.Wait()
}

func (d *drainer) work(ctx context.Context, work <-chan Entry) {
	defer func() {
		if p := recover(); p != nil { // outside of a run: the rest is left to the next drain
			d.stop(&stopped{kind: ErrTemporary, err: fmt.Errorf("internal error: %v; please report it (%s)", p, place(debug.Stack()))})
			d.work(ctx, work)
		}
	}()
	buf := newBuffers()
	for e := range work {
		if ctx.Err() != nil {
			d.recordResult(ctx, e, nil, context.Cause(ctx))
			continue
		}
		r := newDelivery(d, e.Name, e.Live, buf)
		d.recordResult(ctx, e, r, d.deliverRun(ctx, e, r))
	}
}

// deliverRun opens a run, delivers it and closes it. If the run is still tracked, it uploads the committed rows.
func (d *drainer) deliverRun(ctx context.Context, e Entry, r *delivery) (err error) {
	s, err := d.dir.Open(e.Name)
	if err != nil {
		return unreadable("open the run", err)
	}
	defer func() {
		if cerr := s.Close(); cerr != nil && err == nil {
			err = unwritable("close the run", cerr)
		}
	}()
	// A file that makes the program panic must not prevent the delivery of the others.
	defer func() {
		if p := recover(); p != nil {
			err = unreadable("deliver the run", fmt.Errorf("internal error: %v; please report it with the file (%s)", p, place(debug.Stack())))
		}
	}()
	r.setSpooled(s)
	if r.live {
		return r.doRegistered(ctx, r.sync)
	}
	return r.deliver(ctx)
}

// place returns the file and line where a panic began. stack is its stack.
func place(stack []byte) string {
	_, after, _ := strings.Cut(string(stack), "panic(")
	lines := strings.Split(after, "\n") // the arguments and the file of panic, then the function and the file that called it
	if len(lines) < 4 {
		return "at an unknown place"
	}
	where, _, _ := strings.Cut(strings.TrimSpace(lines[3]), " ")
	return filepath.Base(where)
}

// recordResult counts the result of a run's delivery. A refused token or a wrong address ends the drain, because
// every other run would fail too. A locked file is retried once.
func (d *drainer) recordResult(ctx context.Context, e Entry, r *delivery, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r != nil {
		d.sum.Rows += r.sentRows
		d.sum.Bytes += r.sentBytes
	}
	switch {
	case err == nil && r.live:
		d.sum.Live++
		d.sum.LiveSent++
	case err == nil:
		d.sum.Delivered++
	case isKind(err, Unauthorised), isKind(err, Misdirected):
		d.sum.Waiting++
		d.stop(&stopped{kind: ErrConfig, err: err})
	case ctx.Err() != nil:
		d.sum.Waiting++
	case isBusy(err) && !d.last:
		d.locked = append(d.locked, e)
		return
	case isDamaged(err):
		d.sum.Damaged++
		d.sum.addProblem(e.Name, err)
	default:
		d.sum.Failed++
		d.sum.addProblem(e.Name, err)
	}
	if d.opts.Done != nil {
		d.opts.Done(e.Name, err)
	}
}

// noteProblem adds a problem of the run to the summary of the drain, and counts it unless count is nil.
func (r *delivery) noteProblem(count *int, why error) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if count != nil {
		*count++
	}
	r.d.sum.addProblem(r.name, why)
}
