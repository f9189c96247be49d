// Rt-site is the service of a site: it receives the runs of all nodes.
package main

import (
	"context"
	"flag"
	"io"
	"time"

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

func main() { cli.Main(run) }

// run is the program without its process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if configFile, dir, is := isRender(args); is {
		return frame.End(render(ctx, configFile, dir, stdout), stderr)
	}
	return frame.Run(ctx, args, stdout, stderr)
}

// options are the flags of the program and of its verbs.
type options struct {
	config, listen, dir, tokenFile string
	json                           bool
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

func define(flags *flag.FlagSet) *options {
	o := &options{flags: flags}
	flags.StringVar(&o.config, "config", "", "read `FILE` instead of "+config.DefaultPath)
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
	return o
}

var frame = cli.Program[options]{
	Name: "rt-site", About: about, Exits: exitHelp, Default: "help", Define: define,
	Verbs: map[string]func(ctx context.Context, o *options, stdout, stderr io.Writer) error{
		"serve": serve, "verify": verify, "hold": hold, "claim": claim, "doctor": examine, "forget": forget, "sessions": sessions,
		"lake": elsewhere, "export": elsewhere,
	},
	Statuses: []cli.Status{
		{Of: errUnusable, Status: cli.ExitUsage}, {Of: sitestores.ErrConfig, Status: exitConfig}, {Of: site.ErrDamaged, Status: exitData}, {Of: errUnchecked, Status: exitUnread},
	},
}

// elsewhere says which program has a verb.
func elsewhere(context.Context, *options, io.Writer, io.Writer) error {
	return cli.Usage("rt-lake does this; see rt-lake --help")
}
