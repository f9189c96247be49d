// Rt-lake writes the runs of a site as tables of Apache Iceberg.
package main

import (
	"context"
	"flag"
	"io"

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

func main() { cli.Main(frame.Run) }

// options are the flags of the program and of its verbs.
type options struct {
	config, dir               string
	json, dryRun              bool
	users                     []string
	job, cluster, format, out string
}

func define(flags *flag.FlagSet) *options {
	o := &options{}
	flags.StringVar(&o.config, "config", "", "read `FILE` instead of "+config.DefaultPath)
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
	return o
}

var frame = cli.Program[options]{
	Name: "rt-lake", About: about, Exits: exitHelp, Default: "write", Define: define,
	Verbs: map[string]func(ctx context.Context, o *options, stdout, stderr io.Writer) error{
		"write": write, "rebuild": rebuild, "compact": compact, "forget": forget, "export": export,
	},
	Statuses: []cli.Status{{Of: sitestores.ErrConfig, Status: exitConfig}, {Of: site.ErrDamaged, Status: exitData}},
}
