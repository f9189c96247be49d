package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/report/html"
	rtruns "github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

// renderVerb is the verb by which the service starts the process that makes a report. It is no part of the
// command line for people.
const renderVerb = "render-report"

// The limits of the process that makes a report.
const (
	renderMemory = 192 << 20 // bytes above which the Go runtime collects garbage more often
	renderTime   = 90 * time.Second
)

// renderCommand returns the process that makes the report of the records in dir.
func renderCommand(configFile string) func(ctx context.Context, dir string) *exec.Cmd {
	return func(ctx context.Context, dir string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/proc/self/exe", "--config", configFile, renderVerb, dir)
		cmd.Args[0] = "rt-site"
		cmd.Env = []string{"TZ=UTC", "TMPDIR=" + dir}
		return cmd
	}
}

// isRender returns the configuration and the directory of the command line of renderCommand.
func isRender(args []string) (configFile, dir string, is bool) {
	is = len(args) == 4 && args[0] == "--config" && args[2] == renderVerb
	if !is {
		return "", "", false
	}
	return args[1], args[3], true
}

// render writes the report of the records in a directory.
func render(ctx context.Context, configFile, dir string, stdout io.Writer) error {
	debug.SetMemoryLimit(renderMemory)
	time.AfterFunc(renderTime, func() { os.Exit(cli.ExitError) }) // the service may have been killed
	cfg, err := config.Load(configFile)
	if err != nil {
		return err
	}
	job, err := sitereport.Load(ctx, dir, sitestores.FiguresOfOthers(cfg.Energy))
	if err != nil {
		return err
	}
	switch job.Form {
	case site.FormJSON:
		return cli.PrintJSON(stdout, job.Summaries())
	case site.FormJobs:
		return cli.PrintJSON(stdout, rtruns.DetailsOf(job.Jobs, pricesOf(cfg.Waste)))
	}
	page := html.Page{Name: job.Name, Jobs: job.Jobs, Array: job.Array, Zone: time.UTC, Colors: colorsOf(cfg.Waste)}
	for _, run := range job.Runs {
		path := run.Path
		if job.NoPlots {
			path = ""
		}
		shown, err := html.ReadRun(ctx, path, run.Summary, time.UTC)
		if err != nil {
			return fmt.Errorf("the run on node %s: %w", run.Summary.Run.Node, err)
		}
		page.Runs = append(page.Runs, shown)
	}
	write := html.Write
	if job.Form == site.FormPart {
		write = html.WritePart
	}
	return cli.Buffered(stdout, func(w io.Writer) error { return write(w, &page) })
}
