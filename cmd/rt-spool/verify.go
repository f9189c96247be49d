package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/spool"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "check the files of the spool, or those of JOB, and print the problems of each",
		ArgsUsage: "[JOB...]",
		Flags:     []cli.Flag{jsonFlag},
		Action:    runVerify,
	}
}

// verified is the result of one file.
type verified struct {
	Path     string   `json:"path"`
	Job      string   `json:"job"`
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	// Readable is how many snapshots can be read, from the first one on.
	Readable int64 `json:"readable_snapshots"`
	// denied is why this user may not read the file; its content is unknown.
	denied error
}

func runVerify(c *cli.Context) error {
	entries, err := entriesOf(c, c.Args().Slice())
	if err != nil {
		return err
	}
	out := make([]verified, 0, len(entries))
	bad := 0
	var denied []error
	for i := range entries {
		v := verify(c, &entries[i])
		switch {
		case v.denied != nil:
			denied = append(denied, v.denied)
		case !v.OK:
			bad++
		}
		out = append(out, v)
	}
	if c.Bool("json") {
		if err := rtcli.PrintJSON(c.App.Writer, out); err != nil {
			return err
		}
	} else {
		for _, v := range out {
			v.print(c.App.Writer)
		}
	}
	err = unreadable(denied, len(out))
	if bad > 0 {
		err = errors.Join(fmt.Errorf("%w: %d of %d files have problems", errDamaged, bad, len(out)), err)
	}
	return err
}

func (v *verified) print(w io.Writer) {
	path := rt.Printable(v.Path)
	switch {
	case v.OK:
		fmt.Fprintf(w, "ok   %s\n", path)
		return
	case v.denied != nil:
		fmt.Fprintf(w, "?    %s: may not be read by this user\n", path)
		return
	}
	for _, p := range v.Problems {
		fmt.Fprintf(w, "BAD  %s: %s\n", path, rt.PrintableLines(p))
	}
	fmt.Fprintf(w, "     %s: %s\n", path, v.salvage())
}

// salvage describes the readable part of a damaged file.
func (v *verified) salvage() string {
	switch {
	case v.Readable > 0:
		return fmt.Sprintf("%d snapshots can be read: rt-spool export and report show them", v.Readable)
	case v.Job != "":
		return "no snapshot can be read; what was tracked is in the table run"
	}
	return "no part of it can be read"
}

func verify(c *cli.Context, e *spool.Entry) verified {
	v := verified{Path: e.Path, Problems: []string{}}
	// The messages and the printed lines both begin with the path.
	problem := func(text string) { v.Problems = append(v.Problems, strings.ReplaceAll(text, e.Path+": ", "")) }
	failed := func(err error) verified {
		problem(err.Error())
		if errors.Is(err, fs.ErrPermission) {
			v.denied = err
		}
		return v
	}
	if e.Err != nil {
		return failed(e.Err)
	}
	v.Job = e.Run.Label()
	r, err := spool.Open(e.Path)
	if err != nil {
		return failed(err)
	}
	defer r.Close()
	for _, p := range r.Verify(c.Context) {
		problem(p.What)
	}
	v.OK = len(v.Problems) == 0
	v.Readable = e.Snapshots
	if !v.OK {
		v.Readable, _ = r.Readable(c.Context)
	}
	return v
}
