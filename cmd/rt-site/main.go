// Rt-site is the service of a site: it receives the runs of all nodes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
)

// Exit statuses of sysexits.h.
const (
	exitData   = 65 // EX_DATAERR: stored data are damaged
	exitUnread = 74 // EX_IOERR: verify could not read all objects
	exitConfig = 78 // EX_CONFIG: the configuration must be changed first
)

const about = `usage: rt-site [--config FILE] serve [--listen HOST:PORT] [--dir DIR] [--token-file FILE]
       rt-site [--config FILE] verify [--dir DIR] [--json]
       rt-site [--config FILE] forget --user NAME [--pseudonym] [--dry-run] [--dir DIR]
       rt-site [--config FILE] hold --for DURATION [--dir DIR]
       rt-site [--config FILE] claim [--dir DIR]
       rt-site [--config FILE] sessions [--revoke ID] [--revoke-user NAME] [--dir DIR] [--json]
       rt-site [--config FILE] doctor [--dir DIR] [--json]

rt-site serve receives runs: the Sentinel API and an S3-compatible store. The
runs are in a database and an object store, by default in files of one directory.
rt-site verify checks everything that is stored, also while serve is running.
rt-site forget deletes the runs of a user, or puts pseudonyms into them.
rt-site hold keeps objects that are replaced or removed for a time, for a backup.
rt-site claim makes the objects those of this copy of the database, after a restore.
rt-site sessions lists who is logged in to the pages, and the links that share jobs.
rt-site doctor checks that the database and the object store can be used; rt-spool doctor
on this machine runs it and checks the rest.

`

const exitHelp = `
EXIT STATUS:
   0   done
   1   an error, see the message
   2   wrong command line; doctor: the database or the object store cannot be used
   65  stored data are damaged
   74  verify could not read all objects, and has found no damage in the others
   78  the configuration must be changed first
`

// exitStatus maps errors to exit statuses.
func exitStatus(err error) int {
	switch {
	case err == nil:
		return cli.ExitOK
	case errors.Is(err, cli.ErrUsage), errors.Is(err, errUnusable):
		return cli.ExitUsage
	case errors.Is(err, sitestores.ErrConfig):
		return exitConfig
	case errors.Is(err, site.ErrDamaged):
		return exitData
	case errors.Is(err, errUnchecked):
		return exitUnread
	}
	return cli.ExitError
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the program without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := command(ctx, args, stdout, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return cli.ExitOK
	}
	if err != nil {
		cli.Message(stderr, "rt-site", "%v", err)
	}
	return exitStatus(err)
}

// options are the flags of the program and of its verbs.
type options struct {
	config, listen, dir, tokenFile string
	version, json                  bool
	user                           string
	pseudonym, dryRun              bool
	hold                           time.Duration
	revoke, revokeUser             string
	flags                          *flag.FlagSet
}

// isSet reports whether a flag is on the command line.
func (o *options) isSet(name string) (found bool) {
	o.flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// parse parses the command line: flags may stand before and after the verb.
func parse(args []string, stdout io.Writer) (verb string, o *options, err error) {
	flags := flag.NewFlagSet("rt-site", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o = &options{flags: flags}
	flags.StringVar(&o.config, "config", "", "read `FILE` instead of "+config.DefaultPath)
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	flags.StringVar(&o.listen, "listen", "", "serve: listen on `HOST:PORT` instead of serve.listen; port 0 selects a free one")
	flags.StringVar(&o.dir, "dir", "", "the directory of the site is `DIR` instead of serve.dir")
	flags.BoolVar(&o.json, "json", false, "verify: print one JSON object; doctor, sessions: one JSON array")
	flags.StringVar(&o.user, "user", "", "forget: the runs of the user `NAME`")
	flags.StringVar(&o.revoke, "revoke", "", "sessions: end the session or link with this `ID`")
	flags.StringVar(&o.revokeUser, "revoke-user", "", "sessions: end all sessions and links of the user `NAME`")
	flags.DurationVar(&o.hold, "for", 0, "hold: for this `DURATION`; 0s ends it")
	flags.BoolVar(&o.pseudonym, "pseudonym", false, "forget: put pseudonyms in the place of names instead of deleting; needs privacy.key_file")
	flags.BoolVar(&o.dryRun, "dry-run", false, "forget: change nothing, and print what would be changed")
	flags.StringVar(&o.tokenFile, "token-file", "", "serve: accept the API tokens in `FILE`, one a line, instead of serve.token_file")
	flags.Usage = func() {
		flags.SetOutput(stdout)
		fmt.Fprint(stdout, about)
		flags.PrintDefaults()
		fmt.Fprint(stdout, exitHelp)
		flags.SetOutput(io.Discard)
	}
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return "", nil, usage(err)
		}
		args = flags.Args()
		if len(args) == 0 {
			break
		}
		if verb != "" {
			return "", nil, cli.Usage("%s takes no arguments; see rt-site --help", verb)
		}
		verb, args = args[0], args[1:]
	}
	return verb, o, nil
}

// usage is an error of the command line, other than a request for help.
func usage(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return err
	}
	return cli.Usage("%w; see rt-site --help", err)
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if configFile, dir, is := isRender(args); is {
		return render(ctx, configFile, dir, stdout)
	}
	verb, o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	isVersion := o.version || verb == "version"
	isHelp := verb == "" || verb == "help"
	do, isVerb := verbs[verb]
	switch {
	case isVersion:
		fmt.Fprintln(stdout, rt.VersionLine("rt-site"))
		return nil
	case isHelp:
		o.flags.Usage()
		return nil
	case verb == "lake", verb == "export":
		return cli.Usage("rt-lake does this; see rt-lake --help")
	case !isVerb:
		return cli.Usage("%q is not a verb; see rt-site --help", verb)
	}
	return do(ctx, o, stdout, stderr)
}

// verbs are what rt-site can do, by the name on the command line.
var verbs = map[string]func(ctx context.Context, o *options, stdout, stderr io.Writer) error{
	"serve": serve, "verify": verify, "hold": hold, "claim": claim, "doctor": examine, "forget": forget, "sessions": sessions,
}
