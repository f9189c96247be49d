// Package progress shows on a terminal how many runs are done.
package progress

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/resource-tracker/rt/cmd/internal/cli"
)

// Bar is a bar or a count. The methods do nothing on nil.
type Bar struct {
	w io.Writer
	p *progressbar.ProgressBar
}

// New returns a bar if w, for messages, is a terminal and the output is not JSON, else nil.
func New(w io.Writer, isJSON bool) *Bar {
	if isJSON || !cli.IsTerminal(w) {
		return nil
	}
	return &Bar{w: w}
}

// Begin shows that none of the runs is done; -1 is an unknown number.
func (b *Bar) Begin(runs int) {
	if b == nil {
		return
	}
	b.Clear()
	b.p = progressbar.NewOptions(runs,
		progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription("runs"),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(40), progressbar.OptionClearOnFinish())
}

// Done shows that one more run is done.
func (b *Bar) Done(string, error) {
	if b != nil {
		_ = b.p.Add(1) // a failure to draw stops nothing
	}
}

// Clear removes the bar from the terminal, until the next run is done.
func (b *Bar) Clear() {
	if b != nil && b.p != nil {
		_ = b.p.Clear()
	}
}
