package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt/spool"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:         "verify",
		Usage:        "check the files of the spool, or those of JOB, and say what is wrong with each",
		ArgsUsage:    "[JOB...]",
		Flags:        []cli.Flag{jsonFlag},
		OnUsageError: onUsageError,
		Action:       runVerify,
	}
}

// verified is what was found in one file.
type verified struct {
	Path     string   `json:"path"`
	Job      string   `json:"job"`
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	// Readable is how many snapshots can be read, from the first one on.
	Readable int64 `json:"readable_snapshots"`
}

func runVerify(c *cli.Context) error {
	entries, err := entriesOf(c, c.Args().Slice())
	if err != nil {
		return err
	}
	out := make([]verified, 0, len(entries))
	bad := 0
	for i := range entries {
		v := verify(c, &entries[i])
		if !v.OK {
			bad++
		}
		out = append(out, v)
	}
	if c.Bool("json") {
		if err := printJSON(c.App.Writer, out); err != nil {
			return err
		}
	} else {
		for _, v := range out {
			if v.OK {
				fmt.Fprintf(c.App.Writer, "ok   %s\n", v.Path)
			}
			for _, p := range v.Problems {
				fmt.Fprintf(c.App.Writer, "BAD  %s: %s\n", v.Path, p)
			}
			if !v.OK {
				fmt.Fprintf(c.App.Writer, "     %s: %s\n", v.Path, v.salvage())
			}
		}
	}
	if bad > 0 {
		return fmt.Errorf("%w: %d of %d files have problems", errDamaged, bad, len(out))
	}
	return nil
}

// salvage says what can still be had of a damaged file.
func (v *verified) salvage() string {
	switch {
	case v.Readable > 0:
		return fmt.Sprintf("%d snapshots can be read: rt-spool export and report show them", v.Readable)
	case v.Job != "":
		return "no snapshot can be read; what was tracked is in the table run"
	}
	return "nothing of it can be read"
}

func verify(c *cli.Context, e *spool.Entry) verified {
	v := verified{Path: e.Path, Problems: []string{}}
	// The messages begin with the path, and so do our lines.
	problem := func(text string) { v.Problems = append(v.Problems, strings.ReplaceAll(text, e.Path+": ", "")) }
	if e.Err != nil {
		problem(e.Err.Error())
		return v
	}
	v.Job = e.Run.Label()
	r, err := spool.Open(e.Path)
	if err != nil {
		problem(err.Error())
		return v
	}
	defer r.Close()
	for _, p := range r.Verify(c.Context) {
		problem(p.What)
	}
	v.OK = len(v.Problems) == 0
	if v.Readable = e.Snapshots; !v.OK {
		v.Readable, _ = r.Readable(c.Context)
	}
	return v
}
