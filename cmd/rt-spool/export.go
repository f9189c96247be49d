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
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/format/sonar"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// writeRun writes a run in one format.
type writeRun func(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error

type exporter struct {
	format string
	write  writeRun
	needs  string // the data of the format that a node may lack
	// writeNext writes one of several runs, so that their lines name them; nil: a file has one run.
	writeNext writeRun
}

// exporters are the formats that a run can be written in.
var exporters = []exporter{
	{format: "csv", write: resourcetracker.ExportCSV},
	{format: "jsonl", write: exportJSON, writeNext: exportNamedJSON},
	{format: "record", write: exportRecord},
	{format: "ftdc", write: exportFTDC},
	listing("sonar-csv", "", variant(sonar.Export, false)),
	listing("sonar-json", "", variant(sonar.Export, true)),
	{format: "gempba", write: variant(gempba.Export, 0)},
	listing("powerapi-hwpc", "hardware counters or RAPL energy", variant(powerapi.ExportJSON, "hwpc")),
	listing("powerapi-power", "energy of the node", variant(powerapi.ExportJSON, "power")),
	listing("powerapi-procfs", "CPU time of the job", variant(powerapi.ExportJSON, "procfs")),
	{format: "powerapi-core-csv", write: variant(powerapi.ExportGroupCSV, "core"), needs: "hardware counters of cores"},
	{format: "powerapi-rapl-csv", write: variant(powerapi.ExportGroupCSV, "rapl"), needs: "RAPL energy"},
	{format: "powerapi-msr-csv", write: variant(powerapi.ExportGroupCSV, "msr"), needs: "hardware counters of the group msr"},
	{format: "powerapi-power-csv", write: variant(powerapi.ExportCSV, "power"), needs: "energy of the node"},
	{format: "powerapi-procfs-csv", write: variant(powerapi.ExportCSV, "procfs"), needs: "CPU time of the job"},
}

// listing is a format whose lines name their job.
func listing(format, needs string, write writeRun) exporter {
	return exporter{format, write, needs, write}
}

// variant adapts an export that does not depend on the scope and takes another choice.
func variant[T any](write func(context.Context, io.Writer, *spool.Reader, T) error, choice T) writeRun {
	return func(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
		return write(ctx, w, r, choice)
	}
}

func exportRecord(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
	return archive.Write(ctx, w, r, nil)
}

func exportFTDC(ctx context.Context, w io.Writer, r *spool.Reader, _ rt.Scope) error {
	return ftdc.Export(ctx, w, r)
}

// exportJSON adds the reports of the job's GemPBA program.
func exportJSON(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error {
	program, err := gempba.ReadSamples(ctx, r)
	if err != nil {
		return err
	}
	return resourcetracker.ExportJSON(ctx, w, r, scope, program.Until)
}

func exportFormats() string {
	return strings.Join(texts(exporters, func(e exporter) string { return e.format }), ", ")
}

func texts[T any](list []T, text func(T) string) (out []string) {
	for _, v := range list {
		out = append(out, text(v))
	}
	return out
}

func exportCommand() *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write the samples of one run, or of all, in another format",
		ArgsUsage: "JOB | --all",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Value: "csv", Usage: "the `FORMAT`: " + exportFormats()},
			&cli.StringFlag{Name: "scope", Usage: "the figures of `SCOPE`: job or node (default: the configuration's drain.scope)"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, not to standard output (-)"},
			&cli.Float64Flag{Name: "speed", Usage: "of gempba: write the lines `FACTOR` times as fast as they were sent (default: as fast as possible)"},
			nodeFlag,
			&cli.BoolFlag{Name: "all", Usage: "write all runs of the spool that you may read; the lines of the format must name their job"},
		},
		Action: runExport,
	}
}

func runExport(c *cli.Context) error {
	at := slices.IndexFunc(exporters, func(e exporter) bool { return e.format == c.String("format") })
	if at < 0 {
		return rtcli.Usage("--format %q: it is one of %s", c.String("format"), exportFormats())
	}
	isStandard := c.String("output") == "" || c.String("output") == "-"
	isScreen := slices.Contains([]string{"record", "ftdc"}, exporters[at].format) && isStandard && rtcli.IsTerminal(c.App.Writer)
	if isScreen {
		return rtcli.Usage("--format %s is no text: give --output FILE", exporters[at].format)
	}
	scope, err := scopeOf(c)
	if err != nil {
		return err
	}
	speed, err := speedOf(c)
	if err != nil {
		return err
	}
	isOne := c.NArg() > 0 || c.IsSet("node") || speed > 0
	switch {
	case c.Bool("all") && isOne:
		return rtcli.Usage("export --all writes all runs: give no JOB, --node or --speed")
	case c.Bool("all"):
		return exportAll(c, exporters[at], scope)
	}
	found, err := onlyRun(c)
	if err != nil {
		return err
	}
	return found.Close(exportFile(c, exporters[at], found.Entries[0].Path, scope, speed))
}

func exportFile(c *cli.Context, to exporter, path string, scope rt.Scope, speed float64) error {
	r, err := spool.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	if speed > 0 {
		return gempba.Export(c.Context, c.App.Writer, r, speed)
	}
	if run := r.Run(); c.String("format") == "csv" && !run.JobID.Valid() {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: export: CSV has the figures of the whole node, and no columns for those of a command; --format jsonl has both")
	}
	return exportRun(c, to, r, scope)
}

// errNothing reports that there is nothing to write: an existing file stays as it is.
var errNothing = errors.New("nothing is written")

// exportRun writes a run to standard output or to the file of --output.
func exportRun(c *cli.Context, e exporter, r *spool.Reader, scope rt.Scope) error {
	var written counter
	write := func(w io.Writer) error {
		err := e.write(c.Context, io.MultiWriter(w, &written), r, scope)
		if short := (powerapi.LeftOut{}); errors.As(err, &short) {
			rtcli.Message(c.App.ErrWriter, "rt-spool", "export: %v", short)
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
		rtcli.Message(c.App.ErrWriter, "rt-spool", "export: nothing is written: no interval of the run has the data that %s needs: %s", e.format, e.needs)
		return nil
	}
	return err
}

// counter counts the bytes that are written.
type counter int64

func (n *counter) Write(p []byte) (int, error) {
	*n += counter(len(p))
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

// speedOf returns how fast to replay, 0 for as fast as possible.
func speedOf(c *cli.Context) (float64, error) {
	speed := c.Float64("speed")
	switch {
	case !c.IsSet("speed"):
		return 0, nil
	case c.String("format") != "gempba" || c.String("output") != "":
		return 0, rtcli.Usage("--speed is for --format gempba on standard output")
	case speed <= 0, math.IsNaN(speed), math.IsInf(speed, 0):
		return 0, rtcli.Usage("--speed %v: it is a factor above 0; 1 is the original speed", speed)
	}
	return speed, nil
}
