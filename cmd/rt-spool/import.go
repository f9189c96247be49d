package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// importer makes runs in the spool at dir of the text of one file, which is called
// name, and returns the paths of what it has made, also beside an error.
type importer struct {
	format string
	read   func(dir, name string, r io.Reader) ([]string, error)
}

// importers are the formats that can be imported.
var importers = []importer{
	{"ftdc", importFTDC},
}

func importFormats() string {
	var names []string
	for _, i := range importers {
		names = append(names, i.format)
	}
	return strings.Join(names, ", ")
}

func importCommand() *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "make runs of files in another format, which report, export and drain then treat like their own",
		ArgsUsage: "FILE...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Aliases: []string{"f"}, Usage: "the files' `FORMAT`: " + importFormats()},
		},
		OnUsageError: onUsageError,
		Action:       runImport,
	}
}

func runImport(c *cli.Context) error {
	at := slices.IndexFunc(importers, func(i importer) bool { return i.format == c.String("format") })
	switch {
	case at < 0:
		return usage("--format %q: it is one of %s", c.String("format"), importFormats())
	case c.NArg() == 0:
		return usage("import takes the FILEs to import, or - for standard input")
	}
	cfg, err := load(c)
	if err != nil {
		return err
	}
	for _, name := range c.Args().Slice() {
		made, err := importFile(importers[at], cfg.Spool.Dir, name)
		for _, path := range made {
			if _, err := fmt.Fprintln(c.App.Writer, path); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("import %s: %w", name, err)
		}
	}
	return nil
}

func importFile(im importer, dir, name string) ([]string, error) {
	if name == "-" {
		return im.read(dir, "standard input", os.Stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	made, err := im.read(dir, name, f)
	return made, errors.Join(err, f.Close())
}
