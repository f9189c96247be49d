package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/progress"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/upkeep"
	"github.com/resource-tracker/rt/spool/archive"
)

// maxDamage is the largest number of damaged parts in the output of verify --json.
const maxDamage = 10_000

// errUnchecked means that verify could not check everything.
var errUnchecked = errors.New("objects could not be read and are not checked")

// verified is the output of verify --json.
type verified struct {
	upkeep.Totals
	Damage []upkeep.Damage `json:"damage"` // the first 10,000
}

// verify checks what the site has stored.
func verify(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	s, err := o.actAsService()
	if err != nil {
		return err
	}
	st, err := sitestores.OpenExisting(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	out := verified{Damage: []upkeep.Damage{}}
	bar := progress.New(stderr, o.json)
	bar.Begin(-1)
	v := upkeep.Verifier{
		Registry: st.Registry, Objects: st.Objects, RunOf: archive.Check,
		Damaged: func(d upkeep.Damage) {
			if !o.json {
				bar.Clear()
				printDamage(stdout, d)
			} else if len(out.Damage) < maxDamage {
				out.Damage = append(out.Damage, d)
			}
		},
		Unread: func(run, object string, err error) {
			bar.Clear()
			cli.Message(stderr, "rt-site", "run %s: object %s is not checked: %v", run, object, err)
		},
		Checked: func(int) { bar.Done("", nil) },
	}
	out.Totals, err = v.Verify(ctx)
	bar.Clear()
	if o.json {
		err = errors.Join(err, cli.PrintJSON(stdout, out))
	} else if err == nil {
		out.print(stdout)
	}
	if out.Damaged > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d problems were found", site.ErrDamaged, out.Damaged))
	}
	if out.Unchecked > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d; start this again when the object store can be read", errUnchecked, out.Unchecked))
	}
	return err
}

func printDamage(w io.Writer, d upkeep.Damage) {
	where := "registry"
	if d.Run != "" {
		where = "run " + d.Run
	}
	if d.Job != "" {
		where += " (job " + d.Job + " on " + d.Node + ")"
	}
	if d.Object != "" {
		where += ": object " + d.Object
	}
	if d.Stored != "" {
		where += ", in the object store " + d.Stored
	}
	fmt.Fprintf(w, "BAD  %s: %s\n     %s\n", printable.Text(where), printable.Lines(d.Problem), d.Remedy)
}

func (v *verified) print(w io.Writer) {
	fmt.Fprintf(w, "checked %d runs with %d objects, %d bytes: %d problems\n", v.Runs, v.Objects, v.Bytes, v.Damaged)
	if v.Unchecked > 0 {
		fmt.Fprintf(w, "%d of the objects could not be read and are not checked\n", v.Unchecked)
	}
	if v.Unnamed > 0 {
		fmt.Fprintf(w, "%d objects, %d bytes, are older than a day and of no run; rt-site serve removes them\n", v.Unnamed, v.UnnamedBytes)
	}
}
