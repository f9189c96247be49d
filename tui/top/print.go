package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/tui"
)

// Print writes what Run would show as text of a width: the list, or all pages of the open
// run.
func Print(ctx context.Context, src Source, o Options, w io.Writer, columns int) (*Frame, error) {
	f, err := src.Read(ctx, o.wanted())
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	b := brush{o.ASCII, columns}
	switch {
	case f.Program != nil:
		fmt.Fprintf(&out, "%s\n", report.Plain(f.Program.headline(f.Where)))
		f.Program.write(&out, b)
	case f.Open != nil:
		fmt.Fprintf(&out, "%s\n", headline(f.Open))
		d := f.Open
		if d.Cur != nil {
			fmt.Fprintf(&out, "%s of %s  %s  reading %d of %d\n", span(d.At.Seconds()), span(d.Last.Seconds()),
				d.First.Add(d.At).In(o.Zone).Format(time.DateTime), d.Index, d.Count)
		}
		for i := range pages {
			p := d.page(i, b)
			if i > 0 && d.Cur != nil {
				fmt.Fprintf(&out, "\n%s\n", strings.ToUpper(pages[i].title))
			}
			if i == 0 || d.Cur != nil {
				p.write(&out, columns)
			}
		}
		if d.Program != nil {
			d.Program.write(&out, b)
		}
	default:
		p := jobsPage(f, b)
		p.write(&out, columns)
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}
	return f, nil
}

func (p *Program) write(out *strings.Builder, b brush) {
	for i := range programPages {
		t := programPages[i].make(p, 0, b)
		fmt.Fprintf(out, "\n%s\n", strings.ToUpper(programPages[i].title))
		t.write(out, b.width)
	}
}

func (o *Options) wanted() Wanted { return Wanted{Open: o.Open, At: o.At, All: o.All, Wait: true} }

// write writes a page with all of its rows.
func (p *page) write(out *strings.Builder, columns int) {
	for _, h := range p.head {
		out.WriteString(strings.TrimRight(tui.Clip(report.Plain(h), columns), " ") + "\n")
	}
	if len(p.columns) == 0 {
		return
	}
	if len(p.rows) == 0 {
		out.WriteString(p.empty + "\n")
		return
	}
	widths := p.layout(p.rows, columns, order{column: -1})
	out.WriteString(tui.Clip(p.titles(widths, order{column: -1}), columns) + "\n")
	for i := range p.rows {
		out.WriteString(tui.Clip(p.line(&p.rows[i], widths), columns) + "\n")
	}
}

// Document returns the data of Print as a document for package json. It is an array of runs, where
// the open run has its pages, or one object for a program.
func Document(ctx context.Context, src Source, o Options) (f *Frame, doc any, err error) {
	f, err = src.Read(ctx, o.wanted())
	if err != nil {
		return nil, nil, err
	}
	if f.Program != nil {
		return f, f.Program.document(f.Where), nil
	}
	jobs := []any{}
	for i := range f.Jobs {
		jobs = append(jobs, &f.Jobs[i])
	}
	if d := f.Open; d != nil {
		jobs = append(jobs, d.document())
	}
	return f, jobs, nil
}

// document is the JSON of a run: its row of the list, and a list for each page.
type document struct {
	Watched
	AtSecs   float64                     `json:"at_secs"`         // the moment, after the first reading
	LastSecs float64                     `json:"last_secs"`       // of the newest reading
	Reading  int                         `json:"reading"`         // of the shown one, from 1
	Readings int                         `json:"readings"`        // their number
	Interval float64                     `json:"rates_over_secs"` // interval of rates; 0 for the first
	Pages    map[string][]map[string]any `json:"pages"`           // by the names of the pages
}

func (d *Detail) document() document {
	doc := document{
		Watched: d.Job, AtSecs: d.At.Seconds(), LastSecs: d.Last.Seconds(), Reading: d.Index, Readings: d.Count,
		Interval: d.secs(), Pages: map[string][]map[string]any{},
	}
	for i := range pages {
		if p := d.page(i, brush{}); len(p.columns) > 0 {
			doc.Pages[p.name] = p.records()
		}
	}
	if d.Program != nil {
		maps.Copy(doc.Pages, d.Program.records())
	}
	return doc
}

// document returns the JSON of a program: its last line, and a list for each page.
func (p *Program) document(where string) map[string]any {
	doc := map[string]any{
		"address": where, "time": time.UnixMilli(p.newest.TS).UTC(), "elapsed_secs": p.newest.ElapsedSeconds, "topology": p.newest.Topology != nil,
	}
	for name, records := range p.records() {
		doc[name] = records
	}
	return doc
}

// records returns the rows of its pages by the names of the pages.
func (p *Program) records() map[string][]map[string]any {
	out := map[string][]map[string]any{}
	for i := range programPages {
		if i != pageMatrix { // it repeats the traffic
			t := programPages[i].make(p, 0, brush{})
			out[t.name] = t.records()
		}
	}
	return out
}

// records returns the rows of a page, with the keys of its columns.
func (p *page) records() []map[string]any {
	out := []map[string]any{}
	for _, r := range p.rows {
		rec := map[string]any{}
		for i, c := range p.columns {
			if c.key != "" {
				rec[c.key] = r.cells[i].value
			}
		}
		out = append(out, rec)
	}
	return out
}

// ErrMoment marks a text that names no moment of the run.
var ErrMoment = errors.New("not a moment of the run")

// Moment parses a moment of the open run as the time after its first reading.
func Moment(ctx context.Context, src Source, o Options, text string) (time.Duration, error) {
	f, err := src.Read(ctx, Wanted{Open: o.Open, At: -1})
	if err != nil {
		return 0, err
	}
	at, err := f.Open.momentOf(text, o.Zone)
	if err != nil {
		err = errkind.With(ErrMoment, err)
	}
	return at, err
}
