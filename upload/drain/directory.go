package drain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
	"github.com/resource-tracker/rt/slurm/launch"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/upload"
)

// Directory is a spool directory that is drained.
type Directory struct {
	Dir       string
	StateDir  string                       // where the Epilogs write how jobs ended
	Access    func() (spool.Access, error) // who may read a run
	Retain    time.Duration                // how long delivered runs are kept
	QuotaNode int64                        // limit of the size of Dir, in bytes

	Accounting Accounting
	Privacy    Privacy // which names are sent
	Live       *Live   // nil: no reports of runs that are not delivered yet
	// Again is a time. Runs that were delivered to the receiver of the drain since then are delivered again. Zero:
	// none are.
	Again time.Time
}

// locked implements upload.Directory for a Directory. Its method Runs takes the lock of the spool, because
// upload.Drain calls Runs after the jitter. So a drain that still waits holds no lock.
type locked struct {
	*Directory
	endpoint  string       // of the receiver
	unlock    func() error // nil before Runs has taken the lock
	lost      int          // runs that were closed because their trackers had died
	again     int          // delivered runs that are delivered again
	accounted AccountingResult
	live      liveResult
}

// Runs implements upload.Directory. It also closes the runs of dead trackers, and completes ended runs with the data of
// sacct.
func (d *locked) Runs(ctx context.Context) ([]upload.Entry, error) {
	var err error
	d.unlock, err = LockSpool(ctx, d.Dir)
	if err != nil {
		return nil, err
	}
	var out []upload.Entry
	var known []ended
	report := d.Live.begin(d.Directory)
	err = spool.Walk(d.Dir, func(e *spool.Entry) {
		isRunning := e.Err == nil && e.Run.State == rt.StateRunning
		if isRunning && !e.Live {
			e.Run, e.Err = d.closeLost(e.Path)
			e.Live = errors.Is(e.Err, spool.ErrLive)
			if e.Live {
				e.Err = nil
			}
		}
		if e.Err == nil && e.Run.State == rt.StateDelivered {
			isAgain := !d.Again.IsZero() && !e.DeliveredAt.Before(d.Again) && d.sendAgain(e)
			if !isAgain {
				return
			}
		}
		name := filepath.Base(e.Path)
		if e.Err == nil && !e.Live && d.Accounting.wants(&e.Run) {
			known = append(known, endedRun(name, &e.Run))
		}
		report.add(ctx, e)
		out = append(out, upload.Entry{Name: name, Start: e.Run.Start, Live: e.Live, Err: e.Err})
	})
	if err != nil {
		return nil, err
	}
	d.live = report.send(ctx)
	for i := range out {
		out[i].Wanted = d.live.wanted[out[i].Name]
	}
	var waiting map[string]bool
	d.accounted, waiting = d.Accounting.completeRuns(ctx, d.Dir, known, time.Now())
	return slices.DeleteFunc(out, func(e upload.Entry) bool { return waiting[e.Name] }), nil
}

// sendAgain marks a delivered run as not delivered, see spool.Delivery.SendAgain. It returns false if the run must not
// be delivered again. It returns true after an error, which is then in e.
func (d *locked) sendAgain(e *spool.Entry) bool {
	r, err := spool.Open(e.Path)
	if err != nil {
		e.Err = err
		return true
	}
	isAgain, err := r.Delivery().SendAgain(d.endpoint, rt.Event{
		Time: time.Now(), Kind: rt.EventDelivery, Name: "drain", Status: "again", Detail: "was delivered at " + e.DeliveredAt.Format(time.RFC3339),
	})
	e.Run = r.Run()
	e.Err = errors.Join(err, r.Close())
	if isAgain {
		d.again++
	}
	return isAgain || e.Err != nil
}

// LockSpool locks a spool, see spool.LockDir. Its error says which user can lock the directory.
func LockSpool(ctx context.Context, dir string) (unlock func() error, err error) {
	unlock, err = spool.LockDir(ctx, dir)
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("%w: run rt-spool as root or as the spool's owner", err)
	}
	return unlock, err
}

// closeLost closes the run of a dead tracker. It takes over what the Epilog wrote for the tracker,
// except the outcome. The outcome is "lost", because no process saw the end; sacct may replace it later.
func (d *locked) closeLost(path string) (run rt.Run, err error) {
	r, err := spool.Open(path)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	run = r.Run()
	if run.State != rt.StateRunning { // its tracker has ended it since Walk
		return run, nil
	}
	var exit rt.Exit
	state := launch.State{Dir: d.StateDir}
	job, isJob := run.JobID.Get()
	boot, err := host.BootID("/proc")
	if err != nil {
		return run, err
	}
	hasExit := false // the job's Epilog wrote how this run ended
	if isJob && run.BootID == boot {
		exit, err = state.ReadExit(job, run.Node, run.FileStem())
		hasExit = err == nil
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return run, err
		}
		exit.Outcome, exit.Source = rt.OutcomeNone, ""
	}
	if err := r.CloseLost(exit, boot); err != nil {
		return run, fmt.Errorf("close the run of a dead tracker: %w", err)
	}
	d.lost++
	if err := d.grantAccess(r); err != nil {
		return run, err
	}
	if hasExit {
		// Only root may remove the file. If another user runs the drain, a later Epilog of the node removes it.
		if err := state.RemoveExit(job, run.Node); err != nil && !errors.Is(err, fs.ErrPermission) {
			return run, err
		}
	}
	return r.Run(), nil
}

// grantAccess gives access to a run that has ended, as its tracker would have done.
func (d *locked) grantAccess(r *spool.Reader) error {
	access, err := d.Access()
	err = errors.Join(err, r.Grant(access))
	if err == nil {
		return nil
	}
	return r.AddEvent(rt.Event{Time: time.Now(), Kind: "spool", Name: "access", Status: "failed", Detail: err.Error()})
}

// Open implements upload.Directory.
func (d *locked) Open(name string) (upload.Spooled, error) {
	r, err := spool.Open(filepath.Join(d.Dir, name))
	if err != nil {
		return nil, err
	}
	return spooled{r, r.Delivery(), &d.Privacy}, nil
}

// removeOld removes the runs that were delivered longer ago than Retain. It also brings the directory below QuotaNode.
func (d *locked) removeOld(ctx context.Context, now time.Time) (removed int, err error) {
	done, _, err := spool.Collect(ctx, d.Dir, spool.GC{Retain: d.Retain, Bytes: d.QuotaNode, Now: now})
	errs := []error{err}
	for _, c := range done {
		switch {
		case c.Err != nil:
			errs = append(errs, fmt.Errorf("make room in the spool: %s is not %s: %w", filepath.Base(c.Path), c.Action, c.Err))
		case c.Action == spool.Removed && c.Delivered:
			removed++
		}
	}
	return removed, errors.Join(errs...)
}

// Drained is the result of a drain, as a JSON document.
type Drained struct {
	upload.Summary
	Lost    int `json:"runs_closed_as_lost"` // their trackers had died
	Again   int `json:"runs_again"`          // were delivered before, see Directory.Again
	Removed int `json:"runs_removed"`        // delivered longer ago than Directory.Retain
	AccountingResult
	Warnings []string `json:"warnings,omitempty"`
	// AnotherRuns: nothing was done because another drain holds the lock.
	AnotherRuns bool `json:"another_drain_runs"`
	// LiveReport is as NodeReport, of the report of runs that are not delivered yet.
	LiveReport string `json:"live_report,omitempty"`
	live       liveResult
	// NodeReport is "sent", or it says why the state of the node was not recorded or sent. It is empty if the
	// receiver takes no reports.
	NodeReport string `json:"node_report,omitempty"`
}

// Drain locks the directory, delivers its ended runs, and removes old ones. d is valid also if err is not nil. If
// another drain holds the lock, err is nil and d.AnotherRuns is true.
func (dir *Directory) Drain(ctx context.Context, client upload.Client, putter upload.Putter, o upload.DrainOptions) (d Drained, err error) {
	l := &locked{Directory: dir, endpoint: client.Endpoint()}
	d.Summary, err = upload.Drain(ctx, l, client, putter, o)
	d.Lost, d.Again, d.AccountingResult = l.lost, l.again, l.accounted
	d.live, d.LiveReport = l.live, l.live.text()
	if errors.Is(err, spool.ErrLocked) {
		d.AnotherRuns = true
		return d, nil
	}
	if l.unlock == nil {
		return d, err
	}
	var removeErr error
	d.Removed, removeErr = l.removeOld(context.WithoutCancel(ctx), time.Now())
	return d, errors.Join(err, removeErr, l.unlock())
}

// Plan returns what a drain would do with a file at this moment. action is "deliver", "close and deliver",
// "upload", "remove", "leave", or "" for nothing. live says that the drain uploads runs that are still tracked.
//
// record says whether the drain would send the complete record: "yes", "no", or "" if it sends nothing. It is
// "if taken" as long as no receiver has answered the registration of the run.
func (dir *Directory) Plan(e *spool.Entry, live bool) (action, record string) {
	action = dir.action(e, live)
	switch action {
	case "deliver", "close and deliver", "upload":
		return action, sendsRecord(e.Path)
	}
	return action, ""
}

func sendsRecord(path string) string {
	r, err := spool.Open(path)
	if err != nil {
		return "if taken"
	}
	defer r.Close()
	reg, _, err := r.Delivery().Registration()
	switch {
	case err != nil || reg.RemoteID == "":
		return "if taken"
	case reg.Record:
		return "yes"
	}
	return "no"
}

func (dir *Directory) action(e *spool.Entry, live bool) string {
	switch {
	case e.Err != nil:
		return "leave"
	case e.Live && live:
		return "upload"
	case e.Live:
		return "leave"
	}
	switch e.Run.State {
	case rt.StateDelivered:
		if time.Since(e.DeliveredAt) >= dir.Retain {
			return "remove"
		}
		return ""
	case rt.StateRunning:
		return "close and deliver"
	}
	return "deliver"
}
