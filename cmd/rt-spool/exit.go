package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/convert/ftdc"
	"github.com/resource-tracker/rt/internal/convert/sonar"
	"github.com/resource-tracker/rt/internal/tui/ftdcview"
	"github.com/resource-tracker/rt/upload"
)

// The exit statuses from sysexits.h, next to those of all programs.
const (
	exitDamaged   = 65 // EX_DATAERR: all was done but for damaged files
	exitTemporary = 75 // EX_TEMPFAIL: try again later, nothing is lost
	exitConfig    = 78 // EX_CONFIG: a person must change something first
)

const exitHelp = `EXIT STATUS:
   0   done (drain: all that was ready is delivered, or another drain works)
   1   something went wrong, see the message
   2   wrong command line
   65  some files are damaged; everything else was done
   75  not everything could be delivered now; it is kept, try again
   78  the configuration must be changed first
`

var (
	errConfig  = errors.New("configuration")
	errDamaged = errors.New("damaged")
)

// misconfigured marks an error that is fixed in the configuration.
func misconfigured(err error) error { return rtcli.WithKind(errConfig, err) }

// exitStatus is the one place where errors become exit statuses.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return rtcli.ExitOK
	case errors.Is(err, rtcli.ErrUsage):
		return rtcli.ExitUsage
	case errors.Is(err, errConfig), errors.Is(err, upload.ErrConfig):
		return exitConfig
	case errors.Is(err, upload.ErrTemporary), errors.Is(err, context.Canceled):
		return exitTemporary
	case errors.Is(err, errDamaged), errors.Is(err, ftdc.ErrDamaged), errors.Is(err, ftdcview.ErrDamaged), errors.Is(err, sonar.ErrDamaged), errors.Is(err, upload.ErrDamaged):
		return exitDamaged
	}
	return rtcli.ExitError
}

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := newApp(stdout, stderr)
	err := app.RunContext(ctx, inOrder(app, args))
	if err != nil {
		fmt.Fprintf(stderr, "rt-spool: %v\n", err)
	}
	return exitStatus(err)
}
