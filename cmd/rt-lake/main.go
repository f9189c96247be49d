// Rt-lake writes the runs of a site as tables of Apache Iceberg.
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

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
)

// Exit statuses of sysexits.h.
const (
	exitData   = 65 // EX_DATAERR: stored data are damaged
	exitConfig = 78 // EX_CONFIG: the configuration must be changed first
)

const about = `usage: rt-lake [--config FILE] write [--json] [--dir DIR]
       rt-lake [--config FILE] compact [--json] [--dir DIR]
       rt-lake [--config FILE] rebuild [--json] [--dir DIR]
       rt-lake [--config FILE] forget --user NAME... [--dry-run] [--dir DIR]
       rt-lake [--config FILE] export --job ID [--cluster NAME] [--format parquet] --out DIR [--json] [--dir DIR]

rt-lake write, or rt-lake alone, writes what the site received since the last time to the
Iceberg tables runs and samples, in serve.lake.
rt-lake compact merges small files, and removes what a killed writer left.
rt-lake rebuild writes all runs again, for a lake that has lost files.
rt-lake forget removes the runs of users; rt-site forget starts it.
rt-lake export writes the runs of one job as two Parquet files.

`

const exitHelp = `
EXIT STATUS:
   0   done
   1   an error, see the message
   2   wrong command line
   65  stored data are damaged
   78  the configuration must be changed first
`

// exitStatus maps errors to exit statuses.
func exitStatus(err error) int {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return cli.ExitOK
	case errors.Is(err, cli.ErrUsage):
		return cli.ExitUsage
	case errors.Is(err, sitestores.ErrConfig):
		return exitConfig
	case errors.Is(err, site.ErrDamaged):
		return exitData
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
	isMessage := err != nil && !errors.Is(err, flag.ErrHelp)
	if isMessage {
		cli.Message(stderr, "rt-lake", "%v", err)
	}
	return exitStatus(err)
}

// options are the flags of the program and of its verbs.
type options struct {
	config, dir               string
	version, json, dryRun     bool
	users                     []string
	job, cluster, format, out string
	flags                     *flag.FlagSet
}

// parse parses the command line: flags may stand before and after the verb.
func parse(args []string, stdout io.Writer) (words []string, o *options, err error) {
	flags := flag.NewFlagSet("rt-lake", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	o = &options{flags: flags}
	flags.StringVar(&o.config, "config", "", "read `FILE` instead of "+config.DefaultPath)
	flags.BoolVar(&o.version, "version", false, "print the version and exit")
	flags.StringVar(&o.dir, "dir", "", "the directory of the site is `DIR` instead of serve.dir")
	flags.BoolVar(&o.json, "json", false, "print one JSON object")
	flags.Func("user", "forget: the runs of the user `NAME`; may be given several times", func(name string) error {
		o.users = append(o.users, name)
		return nil
	})
	flags.BoolVar(&o.dryRun, "dry-run", false, "forget: change nothing, and print what would be changed")
	flags.StringVar(&o.job, "job", "", "export: the job with this `ID`, or all tasks of the array or components of the heterogeneous job")
	flags.StringVar(&o.cluster, "cluster", "", "export: only the job of the cluster `NAME`")
	flags.StringVar(&o.format, "format", "parquet", "export: the `FORM` of the files: parquet")
	flags.StringVar(&o.out, "out", "", "export: write the files to `DIR`")
	flags.Usage = func() {
		flags.SetOutput(stdout)
		fmt.Fprint(stdout, about)
		flags.PrintDefaults()
		fmt.Fprint(stdout, exitHelp)
		flags.SetOutput(io.Discard)
	}
	for {
		err := flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil, nil, err
		}
		if err != nil {
			return nil, nil, cli.Usage("%w; see rt-lake --help", err)
		}
		args = flags.Args()
		if len(args) == 0 {
			return words, o, nil
		}
		words, args = append(words, args[0]), args[1:]
	}
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	words, o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	verb := append(words, "write")[0]
	do, isVerb := verbs[verb]
	isVersion, isHelp := o.version || verb == "version", verb == "help"
	switch {
	case len(words) > 1:
		return cli.Usage("%s takes no arguments; see rt-lake --help", verb)
	case isVersion:
		fmt.Fprintln(stdout, rt.VersionLine("rt-lake"))
		return nil
	case isHelp:
		o.flags.Usage()
		return nil
	case !isVerb:
		return cli.Usage("%q is not a verb; see rt-lake --help", verb)
	}
	return do(o, ctx, stdout, stderr)
}

// verbs are what rt-lake can do, by the name on the command line.
var verbs = map[string]func(o *options, ctx context.Context, stdout, stderr io.Writer) error{
	"write": (*options).write, "rebuild": (*options).rebuild, "compact": (*options).compact, "forget": (*options).forget, "export": (*options).export,
}
