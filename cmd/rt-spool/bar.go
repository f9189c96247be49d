package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
)

// bar shows on a terminal how many runs are done. The methods do nothing on nil.
type bar struct {
	w io.Writer
	p *progressbar.ProgressBar
}

// newBar returns a bar if the messages go to a terminal and the output is not JSON, else nil.
func newBar(c *cli.Context) *bar {
	if !rtcli.IsTerminal(c.App.ErrWriter) || c.Bool("json") {
		return nil
	}
	return &bar{w: c.App.ErrWriter}
}

// Begin implements list.Progress.
func (b *bar) Begin(runs int) {
	if b == nil {
		return
	}
	b.finish()
	b.p = progressbar.NewOptions(runs,
		progressbar.OptionSetWriter(b.w), progressbar.OptionSetDescription("runs"),
		progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(40), progressbar.OptionClearOnFinish())
}

// Done implements list.Progress.
func (b *bar) Done(string, error) {
	if b != nil {
		_ = b.p.Add(1) // a failure to draw stops nothing
	}
}

func (b *bar) finish() {
	if b != nil && b.p != nil {
		_ = b.p.Finish()
	}
}
