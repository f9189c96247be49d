package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/report/runs"
	"github.com/resource-tracker/rt/spool"
)

// exportAll writes all runs of the spool that this user may read, one after the other.
func exportAll(c *cli.Context, to exporter, scope rt.Scope) error {
	if to.writeNext == nil {
		many := slices.DeleteFunc(slices.Clone(exporters), func(e exporter) bool { return e.writeNext == nil })
		return rtcli.Usage("export --all: %s has one run in a file; export the runs one by one, or use one of %s", to.format, strings.Join(texts(many, func(e exporter) string { return e.format }), ", "))
	}
	entries, err := entriesOf(c, nil)
	if err != nil {
		return err
	}
	entries = leaveOutDenied(c, entries)
	if len(entries) == 0 {
		say(c, "export: nothing is written: the spool has no run that this user may read")
		return nil
	}
	var bad []error
	to.write = func(ctx context.Context, w io.Writer, _ *spool.Reader, scope rt.Scope) error {
		for _, e := range entries {
			err := e.Err
			if err == nil {
				err = exportNext(ctx, w, to, e.Path, scope)
			}
			switch {
			case err == nil:
			case spool.IsDamage(err) || e.Err != nil:
				say(c, "export: %v", err)
				bad = append(bad, err)
			default:
				return err
			}
		}
		return nil
	}
	if err := exportRun(c, to, nil, scope); err != nil {
		return err
	}
	return runs.Unreadable(bad, len(entries))
}

func exportNext(ctx context.Context, w io.Writer, to exporter, path string, scope rt.Scope) error {
	r, err := spool.Open(path)
	if err != nil {
		return err
	}
	defer r.Close()
	return to.writeNext(ctx, w, r, scope)
}

// exportNamedJSON is exportJSON with the name of the run in each line.
func exportNamedJSON(ctx context.Context, w io.Writer, r *spool.Reader, scope rt.Scope) error {
	run := r.Run()
	name, err := json.Marshal(run.FileStem())
	if err != nil {
		return err
	}
	return exportJSON(ctx, namedLines{w, name}, r, scope)
}

// namedLines adds the name of a run to each line that is written.
type namedLines struct {
	to   io.Writer
	name []byte // as JSON
}

func (n namedLines) Write(line []byte) (int, error) {
	_, err := n.to.Write(resourcetracker.With(bytes.Clone(line), "run", n.name))
	return len(line), err
}
