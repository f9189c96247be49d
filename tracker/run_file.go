package tracker

import (
	"sync"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/spool"
)

// RunFile is the writer of a run's file while another goroutine creates the file: the first reading
// does not wait for the disk. Event keeps the events until the file exists; each other method waits for
// it. If it could not be created, Put, UpdateRun and Flush return the reason, and the events are dropped.
type RunFile struct {
	created chan struct{} // closed when Create has ended
	writer  *spool.Writer // nil if err is not nil
	err     error

	mu      sync.Mutex
	isOpen  bool       // the next event goes to the writer
	pending []rt.Event // until then
}

// NewRunFile returns a RunFile without a file. Create must be called once.
func NewRunFile() *RunFile { return &RunFile{created: make(chan struct{})} }

// Create creates the file with create. A panic of create is an error.
func (f *RunFile) Create(create func() (*spool.Writer, error)) {
	defer close(f.created)
	defer recovery.Handle(func(fault error) { f.err = fault })
	f.writer, f.err = create()
	if f.err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.pending {
		f.writer.Event(e)
	}
	f.pending, f.isOpen = nil, true
}

// Wait returns why the file could not be created.
func (f *RunFile) Wait() error {
	<-f.created
	return f.err
}

// Writer returns the writer of the file, nil if it could not be created.
func (f *RunFile) Writer() *spool.Writer {
	<-f.created
	return f.writer
}

// use calls do with the writer.
func (f *RunFile) use(do func(*spool.Writer) error) error {
	if err := f.Wait(); err != nil {
		return err
	}
	return do(f.writer)
}

// Put implements collect.Sink.
func (f *RunFile) Put(s *rt.Snapshot) error {
	return f.use(func(w *spool.Writer) error { return w.Put(s) })
}

// Event implements collect.Ledger. It does not wait for the file.
func (f *RunFile) Event(e rt.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.isOpen {
		f.writer.Event(e)
	} else {
		f.pending = append(f.pending, e)
	}
}

// UpdateRun is spool.Writer.UpdateRun.
func (f *RunFile) UpdateRun(run rt.Run) error {
	return f.use(func(w *spool.Writer) error { return w.UpdateRun(run) })
}

// Discard deletes the file, see spool.Writer.Discard.
func (f *RunFile) Discard() error { return f.use((*spool.Writer).Discard) }

// Close closes the file without ending the run, see spool.Writer.Close.
func (f *RunFile) Close() error { return f.use((*spool.Writer).Close) }

// Flush is spool.Writer.Flush.
func (f *RunFile) Flush() error { return f.use((*spool.Writer).Flush) }
