package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/convert/ftdc"
	"github.com/resource-tracker/rt/internal/convert/gempba"
	"github.com/resource-tracker/rt/internal/convert/powerapi"
	"github.com/resource-tracker/rt/internal/convert/resourcetracker"
	"github.com/resource-tracker/rt/internal/convert/sonar"
	"github.com/resource-tracker/rt/spool"
)

// writeRun writes a run in one format.
type writeRun func(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error

type exporter struct {
	format string
	write  writeRun
}

// exporters are the formats that a run can be written in.
var exporters = []exporter{
	{"csv", resourcetracker.ExportCSV},
	{"jsonl", exportJSON},
	{"ftdc", allFigures(ftdc.Export)},
	{"sonar-csv", variant(sonar.Export, false)},
	{"sonar-json", variant(sonar.Export, true)},
	{"gempba", variant(gempba.Export, 0)},
	{"powerapi-hwpc", variant(powerapi.ExportJSON, "hwpc")},
	{"powerapi-power", variant(powerapi.ExportJSON, "power")},
	{"powerapi-procfs", variant(powerapi.ExportJSON, "procfs")},
	{"powerapi-core-csv", variant(powerapi.ExportGroupCSV, "core")},
	{"powerapi-rapl-csv", variant(powerapi.ExportGroupCSV, "rapl")},
	{"powerapi-msr-csv", variant(powerapi.ExportGroupCSV, "msr")},
	{"powerapi-power-csv", variant(powerapi.ExportCSV, "power")},
	{"powerapi-procfs-csv", variant(powerapi.ExportCSV, "procfs")},
}

// allFigures adapts an export that does not depend on the scope.
func allFigures(write func(context.Context, io.Writer, *spool.Reader) error) writeRun {
	return func(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error { return write(ctx, w, r) }
}

// variant adapts an export that does not depend on the scope and takes one choice.
func variant[T any](write func(context.Context, io.Writer, *spool.Reader, T) error, choice T) writeRun {
	return func(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
		return write(ctx, w, r, choice)
	}
}

// exportJSON adds what the job's GemPBA program reported.
func exportJSON(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error {
	program, err := gempba.ReadSamples(ctx, r)
	if err != nil {
		return err
	}
	return resourcetracker.ExportJSON(ctx, w, r, scope, &program)
}

func exportFormats() string {
	var names []string
	for _, e := range exporters {
		names = append(names, e.format)
	}
	return strings.Join(names, ", ")
}

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write the samples of one run in another format",
		ArgsUsage: "JOB",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "csv", Usage: "the `FORMAT`: " + exportFormats()},
			&cli.StringFlag{Name: "scope", Usage: "the figures of `SCOPE`: job or node (default: the configuration's drain.scope)"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, not to standard output (-)"},
			&cli.Float64Flag{Name: "speed", Usage: "of gempba: write the lines `FACTOR` times as fast as they came (default: as fast as possible)"},
			nodeFlag,
		},
		OnUsageError: onUsageError,
		Action:       runExport,
	}
}

func runExport(c *cli.Context) error {
	at := slices.IndexFunc(exporters, func(e exporter) bool { return e.format == c.String("format") })
	if at < 0 {
		return rtcli.Usage("--format %q: it is one of %s", c.String("format"), exportFormats())
	}
	scope, err := scopeOf(c)
	if err != nil {
		return err
	}
	speed, err := speedOf(c)
	if err != nil {
		return err
	}
	entries, err := runsOf(c)
	if err != nil {
		return err
	}
	if len(entries) > 1 {
		return rtcli.Usage("job %s has %d runs; take one of them by --node or by its file:\n  %s",
			c.Args().First(), len(entries), strings.Join(paths(entries), "\n  "))
	}
	r, err := spool.Open(entries[0].Path)
	if err != nil {
		return err
	}
	defer r.Close()
	if speed > 0 {
		return gempba.Export(c.Context, c.App.Writer, r, speed)
	}
	sayWhose(c, r.Run(), exporters[at].format)
	return exportRun(c, exporters[at], r, scope)
}

// errNothing says that there is nothing to write: a file that is there stays as it is.
var errNothing = errors.New("nothing is written")

// exportRun writes a run to standard output or to the file of --output.
func exportRun(c *cli.Context, e exporter, r *spool.Reader, scope rt.Scope) error {
	var written counted
	write := func(w io.Writer) error {
		err := e.write(c.Context, io.MultiWriter(w, &written), r, scope)
		if short := (powerapi.LeftOut{}); errors.As(err, &short) {
			fmt.Fprintf(c.App.ErrWriter, "rt-spool: export: %v\n", short)
			err = nil
		}
		if err == nil && written == 0 {
			return errNothing
		}
		return err
	}
	var err error
	if name := c.String("output"); name != "" && name != "-" {
		err = rtcli.WriteFile(name, write)
	} else {
		err = rtcli.Buffered(c.App.Writer, write)
	}
	if errors.Is(err, errNothing) {
		fmt.Fprintf(c.App.ErrWriter, "rt-spool: export: nothing is written: no interval of the run has the figures of which %s is made%s\n",
			e.format, made[e.format])
		return nil
	}
	return err
}

// sayWhose says that the 21 columns of a command's run are the node's: they look as if
// they were the command's.
func sayWhose(c *cli.Context, run rt.Run, format string) {
	if format == "csv" && !run.JobID.Valid() {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: export: these are figures of the whole node: CSV has no columns for those of a command; --format jsonl has both")
	}
}

// made is of what the reports are made that not every node can give.
var made = map[string]string{
	"powerapi-hwpc": ": hardware counters or RAPL energy", "powerapi-core-csv": ": hardware counters of cores",
	"powerapi-rapl-csv": ": RAPL energy", "powerapi-msr-csv": ": hardware counters of the group msr",
	"powerapi-power": ": energy of the node", "powerapi-power-csv": ": energy of the node",
}

// counted is how many bytes went by.
type counted int64

func (n *counted) Write(p []byte) (int, error) {
	*n += counted(len(p))
	return len(p), nil
}

func scopeOf(c *cli.Context) (rt.Scope, error) {
	name := c.String("scope")
	if name == "" {
		cfg, err := load(c)
		if err != nil {
			return "", err
		}
		name = cfg.Drain.Scope
	}
	switch scope := rt.Scope(name); scope {
	case rt.ScopeJob, rt.ScopeNode:
		return scope, nil
	}
	return "", rtcli.Usage("--scope %q: it is job or node", name)
}

func paths(entries []spool.Entry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Path)
	}
	return out
}

// speedOf is how fast to replay, 0 for as fast as possible.
func speedOf(c *cli.Context) (float64, error) {
	speed := c.Float64("speed")
	switch {
	case !c.IsSet("speed"):
		return 0, nil
	case c.String("format") != "gempba" || c.String("output") != "":
		return 0, rtcli.Usage("--speed: it is for --format gempba on standard output")
	case speed <= 0, math.IsNaN(speed), math.IsInf(speed, 0):
		return 0, rtcli.Usage("--speed %v: it is a factor above 0, and 1 is as fast as it came", speed)
	}
	return speed, nil
}
