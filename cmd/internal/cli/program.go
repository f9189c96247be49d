package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/resource-tracker/rt"
)

// Program is a program with verbs and the flags O, which may stand before and after the verb.
type Program[O any] struct {
	Name, About, Exits string // of the help, before and after its flags
	Default            string // the verb of a command line without one
	Define             func(*flag.FlagSet) *O
	Verbs              map[string]func(ctx context.Context, o *O, stdout, stderr io.Writer) error
	Statuses           []Status // of errors; the first that fits
}

// Status is the exit status of an error.
type Status struct {
	Of     error
	Status int
}

// Main runs the program as the process.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// Run is the program without its process. It returns the exit status.
func (p *Program[O]) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := p.command(ctx, args, stdout, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return ExitOK
	}
	return p.End(err, stderr)
}

// End writes the message of an error and returns its exit status.
func (p *Program[O]) End(err error, stderr io.Writer) int {
	if err == nil {
		return ExitOK
	}
	Message(stderr, p.Name, "%v", err)
	for _, s := range append([]Status{{ErrUsage, ExitUsage}}, p.Statuses...) {
		if errors.Is(err, s.Of) {
			return s.Status
		}
	}
	return ExitError
}

func (p *Program[O]) command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o := p.Define(flags)
	isVersion := flags.Bool("version", false, "print the version and exit")
	flags.Usage = func() {
		flags.SetOutput(stdout)
		fmt.Fprint(stdout, p.About)
		flags.PrintDefaults()
		fmt.Fprint(stdout, p.Exits)
		flags.SetOutput(io.Discard)
	}
	var words []string
	for more := true; more; more = len(args) > 0 {
		err := flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		if err != nil {
			return Usage("%w; see %s --help", err, p.Name)
		}
		args = flags.Args()
		if len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	verb := append(words, p.Default)[0]
	do := p.Verbs[verb]
	switch {
	case len(words) > 1:
		return Usage("%s takes no arguments; see %s --help", verb, p.Name)
	case *isVersion, verb == "version":
		fmt.Fprintln(stdout, rt.VersionLine(p.Name))
		return nil
	case verb == "help":
		flags.Usage()
		return nil
	case do == nil:
		return Usage("%q is not a verb; see %s --help", verb, p.Name)
	}
	return do(ctx, o, stdout, stderr)
}
