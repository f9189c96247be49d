package main

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/format/sonar"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// importer makes runs of each file or of all together, and returns their paths, with an error too.
type importer struct {
	format string
	read   func(to importTarget, name string, r io.Reader) ([]string, error)
	all    func(to importTarget, files iter.Seq2[string, io.Reader]) ([]string, error)
	into   bool // it takes --run
}

// importTarget is where the imported runs go.
type importTarget struct {
	dir     string
	cluster string        // of the jobs; empty if it is unknown
	into    []spool.Entry // the runs of --run
	limits  *spool.ImportLimits
	warn    func(format string, args ...any)
}

// importers are the formats that can be imported.
var importers = []importer{
	{format: "record", read: runOf(importRecord)},
	{format: "ftdc", read: runOf(ftdc.Import)},
	{format: "sonar-csv", all: importSonar},
	{format: "sonar-json", all: importSonar},
	{format: "powerapi", into: true, read: func(to importTarget, name string, r io.Reader) ([]string, error) {
		return powerapi.Import(to.dir, to.limits, to.into, name, r, to.warn)
	}},
	{format: "gempba", read: runOf(gempba.Import)},
}

// runOf adapts the import of a file that has one run.
func runOf(read func(dir string, limits *spool.ImportLimits, name string, r io.Reader) ([]string, error)) func(importTarget, string, io.Reader) ([]string, error) {
	return func(to importTarget, name string, r io.Reader) ([]string, error) {
		return read(to.dir, to.limits, name, r)
	}
}

func importRecord(dir string, limits *spool.ImportLimits, _ string, r io.Reader) ([]string, error) {
	path, err := archive.Read(dir, limits, r)
	if err != nil {
		return nil, err
	}
	return []string{path}, nil
}

func importSonar(to importTarget, files iter.Seq2[string, io.Reader]) ([]string, error) {
	return sonar.Import(to.dir, to.limits, to.cluster, files, to.warn)
}

func importFormats() string {
	return strings.Join(texts(importers, func(i importer) string { return i.format }), ", ")
}

func importCommand() *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "make runs of files in another format, for report, export and drain",
		ArgsUsage: "FILE...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Usage: "the files' `FORMAT`: " + importFormats()},
			&cli.StringFlag{Name: "cluster", Usage: "the jobs of Sonar's files are those of the cluster `NAME`"},
			&cli.StringFlag{Name: "run", Usage: "store PowerAPI's reports with the runs of `JOB`, if they are of its time"},
			nodeFlag,
			&cli.IntFlag{Name: "max-runs", Value: 2000, Usage: "refuse to make more than `N` runs"},
			&cli.StringFlag{Name: "max-size", Value: "1GiB", Usage: "stop when the runs take more than `SIZE` on the disk"},
		},
		Action: withConfig(runImport),
	}
}

func runImport(c *cli.Context, cfg config.Config) error {
	at := slices.IndexFunc(importers, func(i importer) bool { return i.format == c.String("format") })
	switch {
	case !c.IsSet("format"):
		return rtcli.Usage("import needs the format of the files: give --format, one of %s", importFormats())
	case at < 0:
		return rtcli.Usage("--format %q: it is one of %s", c.String("format"), importFormats())
	case c.IsSet("cluster") && importers[at].all == nil:
		return rtcli.Usage("--cluster: files of %s name the cluster themselves", c.String("format"))
	case c.IsSet("run") && !importers[at].into:
		return rtcli.Usage("--run: files of %s become runs of their own", c.String("format"))
	case c.IsSet("node") && !c.IsSet("run"):
		return rtcli.Usage("--node needs --run")
	case c.NArg() == 0:
		return rtcli.Usage("import takes the FILEs to import, or - for standard input")
	}
	var size config.Size
	if err := size.UnmarshalText([]byte(c.String("max-size"))); err != nil || size.Bytes < 1 || c.Int("max-runs") < 1 {
		return rtcli.Usage("--max-runs %d, --max-size %q: give a number of at least 1 and a size such as 4GiB", c.Int("max-runs"), c.String("max-size"))
	}
	if err := makeSpool(c, cfg.Spool.Dir); err != nil {
		return err
	}
	to := importTarget{dir: cfg.Spool.Dir, cluster: c.String("cluster"), limits: &spool.ImportLimits{Runs: c.Int("max-runs"), Bytes: size.Bytes}, warn: func(format string, args ...any) {
		rtcli.Message(c.App.ErrWriter, "rt-spool", "import: "+format, args...)
	}}
	if importers[at].all != nil {
		return importAll(c, importers[at], to)
	}
	var failed []error
	if job := c.String("run"); job != "" {
		var err error
		to.into, err = runsFor(c, job)
		if err != nil {
			return err
		}
	}
	for _, name := range c.Args().Slice() {
		made, err := importFile(importers[at], to, name)
		if err := errors.Join(err, handOver(c.App.Writer, cfg.Spool.Dir, made)); err != nil {
			failed = append(failed, fmt.Errorf("import %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// handOver prints the paths of new files, and gives root's files to the spool's owner.
func handOver(w io.Writer, dir string, made []string) error {
	var failed []error
	for _, path := range made {
		st, err := os.Stat(dir)
		if err == nil && os.Geteuid() == 0 {
			owner := st.Sys().(*syscall.Stat_t)
			err = os.Lchown(path, int(owner.Uid), int(owner.Gid))
		}
		_, printed := fmt.Fprintln(w, path)
		failed = append(failed, err, printed)
	}
	return errors.Join(failed...)
}

// openInput opens a file; - is standard input.
func openInput(name string) (label string, f io.ReadCloser, err error) {
	if name == "-" {
		return "standard input", io.NopCloser(os.Stdin), nil
	}
	f, err = os.Open(name)
	return name, f, err
}

func importFile(im importer, to importTarget, name string) ([]string, error) {
	label, f, err := openInput(name)
	if err != nil {
		return nil, err
	}
	made, err := im.read(to, label, f)
	return made, errors.Join(err, f.Close())
}

// importAll imports all files together, except those that cannot be opened.
func importAll(c *cli.Context, im importer, to importTarget) error {
	var failed []error
	files := func(yield func(string, io.Reader) bool) {
		for _, name := range c.Args().Slice() {
			label, f, err := openInput(name)
			if err != nil {
				failed = append(failed, fmt.Errorf("import: %w", err))
				continue
			}
			more := yield(label, f)
			if err := f.Close(); err != nil {
				failed = append(failed, fmt.Errorf("import %s: %w", name, err))
			}
			if !more {
				return
			}
		}
	}
	made, err := im.all(to, files)
	if err := errors.Join(err, handOver(c.App.Writer, to.dir, made)); err != nil {
		failed = append(failed, fmt.Errorf("import: %w", err))
	}
	return errors.Join(failed...)
}
