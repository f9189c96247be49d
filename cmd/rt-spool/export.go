package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/powerapi"
	"github.com/resource-tracker/rt/format/resourcetracker"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/delivery"
	"github.com/resource-tracker/rt/spool"
)

// exporter writes a run in one format.
type exporter struct {
	format string
	write  func(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error
}

// exporters are the formats that a run can be written in.
var exporters = []exporter{
	{"csv", exportCSV},
	{"jsonl", exportJSON},
	{"ftdc", exportFTDC},
	{"sonar-csv", exportSonarCSV},
	{"sonar-json", exportSonarJSON},
	{"gempba", exportGemPBA},
	{"powerapi-hwpc", powerapiExport("hwpc")},
	{"powerapi-power", powerapiExport("power")},
	{"powerapi-procfs", powerapiExport("procfs")},
	{"powerapi-core-csv", powerapiGroupCSV(powerapi.GroupCore)},
	{"powerapi-rapl-csv", powerapiGroupCSV(powerapi.GroupRAPL)},
	{"powerapi-msr-csv", powerapiGroupCSV(powerapi.GroupMSR)},
	{"powerapi-power-csv", powerapiCSV("power")},
	{"powerapi-procfs-csv", powerapiCSV("procfs")},
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
		return replayGemPBA(c.Context, c.App.Writer, r, speed)
	}
	sayWhose(c, r.Run(), exporters[at].format)
	return writeRun(c, exporters[at], r, scope)
}

// errNothing says that there is nothing to write: a file that is there stays as it is.
var errNothing = errors.New("nothing is written")

// writeRun writes a run to standard output or to the file of --output.
func writeRun(c *cli.Context, e exporter, r *spool.Reader, scope rt.Scope) error {
	var written counted
	write := func(w io.Writer) error {
		err := e.write(c.Context, io.MultiWriter(w, &written), r, scope)
		if short := (leftOut{}); errors.As(err, &short) {
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
		err = writeFile(name, write)
	} else {
		err = buffered(c.App.Writer, write)
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

// exportCSV writes the columns of section 7.2, a row for each interval.
func exportCSV(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error {
	if _, err := io.WriteString(w, resourcetracker.CSVHeader); err != nil {
		return err
	}
	var line []byte
	return intervals(ctx, r, false, func(prev, cur *rt.Snapshot) error {
		line = delivery.SpecRows{Scope: scope}.Append(line[:0], prev, cur)
		_, err := w.Write(line)
		return err
	})
}

// exportJSON writes the lines of section 7.1, with what a GemPBA program of the job
// told of itself in each interval, where it was listened to.
func exportJSON(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error {
	run := r.Run()
	program, err := gempbaTotals(ctx, r)
	if err != nil {
		return err
	}
	var line []byte
	return intervals(ctx, r, true, func(prev, cur *rt.Snapshot) error {
		s := rt.Derive(prev, cur, scope)
		if run.Meta.JobName != "" {
			s.JobName.Set(run.Meta.JobName)
		}
		line = resourcetracker.AppendJSON(line[:0], &s, rt.Version)
		told, err := program.until(cur.Wall)
		if err != nil {
			return err
		}
		if told != nil {
			line = resourcetracker.With(line, "gempba", told)
		}
		_, err = w.Write(line)
		return err
	})
}

// intervals visits each interval of a run.
func intervals(ctx context.Context, r *spool.Reader, devices bool, visit func(prev, cur *rt.Snapshot) error) error {
	last, err := r.LastSeq()
	if err != nil {
		return err
	}
	snapshots := r.Rates(ctx, 1, last)
	if devices {
		snapshots = r.Snapshots(ctx, 1, last)
	}
	for i, err := range rt.Intervals(snapshots) {
		if err != nil {
			return fmt.Errorf("%s: %w", r.Path(), err)
		}
		if err := visit(i.Prev, i.Cur); err != nil {
			return err
		}
	}
	return nil
}

// keep copies a snapshot that its iterator will reuse.
func keep(s *rt.Snapshot) rt.Snapshot {
	var out rt.Snapshot
	out.CopyFrom(s)
	return out
}

func buffered(w io.Writer, write func(io.Writer) error) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	return errors.Join(write(bw), bw.Flush())
}

// writeFile makes the file whole or not at all. What is no file, as a terminal or
// a pipe, is written to as it comes.
func writeFile(name string, write func(io.Writer) error) error {
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		if st.IsDir() {
			return fmt.Errorf("export to %s: it is a directory", name)
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		return errors.Join(buffered(f, write), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".rt-spool-*")
	if err != nil {
		return fmt.Errorf("export to %s: make a file in %s: %w", name, filepath.Dir(name), cause(err))
	}
	err = errors.Join(buffered(f, write), f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = cause(os.Rename(f.Name(), name))
	}
	if err != nil {
		return fmt.Errorf("export to %s: %w", name, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// cause is what the system said, without the name of a temporary file.
func cause(err error) error {
	var of *fs.PathError
	var from *os.LinkError
	switch {
	case errors.As(err, &of):
		return of.Err
	case errors.As(err, &from):
		return from.Err
	}
	return err
}
