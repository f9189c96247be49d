// Rt-spool shows, exports, checks and delivers the runs that trackers have spooled.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/convert/ftdc"
	"github.com/resource-tracker/rt/internal/convert/sonar"
	"github.com/resource-tracker/rt/internal/tui/ftdcview"
	"github.com/resource-tracker/rt/upload"
)

// The exit statuses from sysexits.h, next to those of all programs.
const (
	exitDamaged   = 65 // EX_DATAERR: some files are damaged; everything else was done
	exitTemporary = 75 // EX_TEMPFAIL: retry later, nothing is lost
	exitConfig    = 78 // EX_CONFIG: the configuration must be changed first
)

const exitHelp = `EXIT STATUS:
   0   done (drain: everything that was ready is delivered, or another drain is running)
   1   an error, see the message
   2   wrong command line
   65  some files are damaged; everything else was done
   75  not everything could be delivered now; it is kept; retry
   78  the configuration must be changed first
`

var (
	errConfig  = errors.New("configuration")
	errDamaged = errors.New("damaged")
)

// misconfigured marks an error that is fixed in the configuration.
func misconfigured(err error) error { return rtcli.WithKind(errConfig, err) }

// exitStatus maps errors to exit statuses.
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := newApp(stdout, stderr)
	err := app.RunContext(ctx, inOrder(app, args))
	if err != nil {
		fmt.Fprintf(stderr, "rt-spool: %v\n", err)
	}
	return exitStatus(err)
}
