package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/spool"
)

// Checked is the result of the check of one file.
type Checked struct {
	Path     string   `json:"path"`
	Job      string   `json:"job"`
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`
	// Readable is how many snapshots can be read, from the first one on.
	Readable int64 `json:"readable_snapshots"`
	// denied is why the content is unknown: this user may not read the file, it is of another version, or the disk fails.
	denied error
}

// Check checks the files of runs. The error says how many have problems or may not be read.
func Check(ctx context.Context, entries []spool.Entry) ([]Checked, error) {
	out := make([]Checked, 0, len(entries))
	bad := 0
	var denied []error
	for i := range entries {
		v := check(ctx, &entries[i])
		switch {
		case v.denied != nil:
			denied = append(denied, v.denied)
		case !v.OK:
			bad++
		}
		out = append(out, v)
	}
	err := Unreadable(denied, len(out))
	if bad > 0 {
		err = errors.Join(fmt.Errorf("%w: %d of %d files have problems", ErrDamaged, bad, len(out)), err)
	}
	return out, err
}

func check(ctx context.Context, e *spool.Entry) Checked {
	v := Checked{Path: e.Path, Problems: []string{}}
	// The messages and the printed lines both begin with the path.
	problem := func(text string) { v.Problems = append(v.Problems, strings.ReplaceAll(text, e.Path+": ", "")) }
	failed := func(err error) Checked {
		problem(err.Error())
		if IsDenied(err) || spool.IsIntact(err) {
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
	for _, p := range r.Verify(ctx) {
		problem(p.What)
	}
	v.OK = len(v.Problems) == 0
	v.Readable = e.Snapshots
	if !v.OK {
		v.Readable, _ = spool.Readable(ctx, r)
	}
	return v
}

// Print prints the result.
func (v *Checked) Print(w io.Writer) {
	path := printable.Text(v.Path)
	switch {
	case v.OK:
		fmt.Fprintf(w, "ok   %s\n", path)
		return
	case IsOfOthers(v.denied):
		fmt.Fprintf(w, "?    %s: may not be read by this user\n", path)
		return
	case v.denied != nil:
		fmt.Fprintf(w, "?    %s: %s\n", path, printable.Lines(v.Problems[0]))
		return
	}
	for _, p := range v.Problems {
		fmt.Fprintf(w, "BAD  %s: %s\n", path, printable.Lines(p))
	}
	fmt.Fprintf(w, "     %s: %s\n", path, v.salvage())
}

// salvage describes the readable part of a damaged file.
func (v *Checked) salvage() string {
	switch {
	case v.Readable > 0:
		return fmt.Sprintf("%d snapshots can be read: rt-spool export and report show them", v.Readable)
	case v.Job != "":
		return "no snapshot can be read; what was tracked is in the table run"
	}
	return "no part of it can be read"
}
