package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// bar shows the progress of a drain on a terminal. finish does nothing on nil.
type bar struct {
	w io.Writer
	p *progressbar.ProgressBar
}

func newBar(w io.Writer) *bar { return &bar{w: w} }

// Begin implements upload.Progress.
func (b *bar) Begin(runs int) {
	b.p = progressbar.NewOptions(runs,
		progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription("runs"),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(40), progressbar.OptionClearOnFinish())
}

// Done implements upload.Progress.
func (b *bar) Done(string, error) { _ = b.p.Add(1) } // a failure to draw does not stop a drain

func (b *bar) finish() {
	if b != nil && b.p != nil {
		_ = b.p.Finish()
	}
}
