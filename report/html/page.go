// Package html writes the report of a job as one HTML file with interactive plots. The file
// needs no network: it contains its style, its scripts and its data.
package html

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // the template, the style and the scripts
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/report"
)

// PageRun is one run of the job: a node, an attempt or a task of an array.
type PageRun struct {
	Summary *report.Summary
	Series  *Series // nil: the run has no plots
	Text    string  // the same report as text
}

// Page is what the page of a job shows.
type Page struct {
	Name  string // as the user wrote it
	Runs  []PageRun
	Jobs  []*report.JobSummary // the jobs of Runs with their advice; several are tasks of an array, or steps
	Array *report.Array        // if Runs are tasks of an array: its advice replaces the advice of Jobs
	Zone  *time.Location       // of all times on the page
	// Colors says from when on the use of the allocation is wasteful or harmful.
	Colors report.Colors
}

// The size of the plots' data, in bytes of base64. The rest of a page takes less than 150 KiB, plus
// at most 15 KiB per run.
const (
	budgetPerRun = 800 << 10
	budgetOfAll  = 4500 << 10
)

var (
	//go:embed page.html.tmpl
	pageText string
	//go:embed page.css
	pageStyle string
	//go:embed page.js
	pageScript string
	//go:embed uplot/uPlot.iife.min.js
	uplotScript string
	//go:embed uplot/uPlot.min.css
	uplotStyle string
	//go:embed uplot/LICENSE
	uplotLicense string

	page = template.Must(template.New("page").Parse(pageText))

	style, script = uplotStyle + pageStyle, uplotScript + "\n" + pageScript
	// The style of a part is for the part alone.
	partStyle = ".report {" + style + "}"
	// PartPolicy permits, for the page around a part, its own style and scripts, and the style and scripts of the part.
	PartPolicy = fmt.Sprintf("style-src 'self' '%s'; script-src 'self' '%s'", hash(partStyle), hash(script))
	// Policy is the Content-Security-Policy of each page. It permits the style and the scripts of the page alone.
	Policy = fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", hash(style), hash(script))
)

// view is what the template shows.
type view struct {
	Title   string
	Facts   []fact
	Bars    []bar
	Advice  []advice
	Tables  []table
	Runs    []runView
	Data    pageData
	Policy  string
	Style   template.CSS
	Script  template.JS
	License string
}

type runView struct{ Name, Text string }

type fact struct {
	Name, Value string
	At          time.Time // that the value has; else zero
	Level       string
}

// bar is a part of a whole.
type bar struct {
	Name  string
	Pct   float64 // 0..100 of the whole
	Value string
	Level string
}

// Width is the part of a bar that is filled, in percent.
func (b bar) Width() string { return fmt.Sprintf("%.1f", min(b.Pct, 100)) }

// pageData is what the script shows.
type pageData struct {
	Figures []figure  `json:"figures"`
	Runs    []runData `json:"runs"`
	// Shared is set if the runs were at the same time: their plots then have the same time axis.
	Shared     bool   `json:"shared"`
	OffsetSecs int    `json:"offset"` // of the zone from UTC
	Zone       string `json:"zone"`
}

type runData struct {
	Name   string  `json:"name"`
	Levels []level `json:"levels"`
	Marks  []mark  `json:"marks"`
	Lanes  []*lane `json:"lanes"`
	More   int     `json:"moreLanes,omitempty"` // lanes that are only in the table
	Packed packed  `json:"packed"`
	// Empty is why a figure has no plot, by its key.
	Empty map[string]string `json:"empty,omitempty"`
}

// level is a constant in a plot: a limit, an allocation.
type level struct {
	Figure string  `json:"f"`
	Name   string  `json:"n"`
	Value  float64 `json:"v"`
	Hidden bool    `json:"h,omitempty"` // until the reader selects it
	IsPeak bool    `json:"p,omitempty"` // marked with its name and value
}

// mark is an event in a plot.
type mark struct {
	Figure string  `json:"f"`
	Text   string  `json:"t"`
	At     float64 `json:"at"` // seconds since the epoch
}

// Write writes the page of a job with one run or more.
func Write(w io.Writer, p *Page) error { return p.write(w, "page", style) }

// WritePart writes the same as a part of another page, which has the colors.
func WritePart(w io.Writer, p *Page) error { return p.write(w, "part", partStyle) }

func (p *Page) write(w io.Writer, name, css string) error {
	v := view{
		License: uplotLicense,
		Style:   template.CSS(css), Script: template.JS(script), //nolint:gosec // both are constants of the program
		Policy: Policy,
		Data:   dataOf(p),
	}
	jobs := p.Jobs
	v.Title, v.Facts, v.Bars, v.Advice, v.Tables = title(p, jobs), factsOf(p, jobs), barsOf(jobs, &p.Colors), adviceOf(jobs), tablesOf(p)
	if p.Array != nil {
		v.Advice = adviceOf([]*report.JobSummary{{Advice: p.Array.Advice, AdviceReason: p.Array.AdviceReason}})
	}
	names := runNames(p)
	for i := range p.Runs {
		v.Runs = append(v.Runs, runView{names[i], p.Runs[i].Text})
	}
	if err := page.ExecuteTemplate(w, name, v); err != nil {
		return fmt.Errorf("write the page of job %s: %w", p.Name, err)
	}
	return nil
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// title names the job as the text does, and the tasks of an array as Slurm does: "Array 12_[0-4] md".
// A command is named without its directory and its arguments, because the facts have them.
func title(p *Page, jobs []*report.JobSummary) string {
	r := &p.Runs[0].Summary.Run
	what := jobs[0].Title()
	switch {
	case p.Array != nil:
		what = "Array " + printable.Text(p.Array.Job)
		if ids := p.Array.TaskIDs; ids != "" {
			what += "_[" + shortIDs(ids) + "]"
		}
	case len(jobs) > 1:
		what = "Job " + printable.Text(p.Name)
	case !r.JobID.Valid() && len(r.Command) > 0:
		name := cmp.Or(r.Meta.JobName, filepath.Base(r.Command[0]))
		return "Command " + printable.Text(name)
	}
	return strings.TrimSpace(printable.Text(what) + " " + printable.Text(jobs[0].Name))
}

// mostTaskIDs bounds the length of the task ids in the title; the table of runs has all.
const mostTaskIDs = 60

// shortIDs cuts a list of task ids after a comma.
func shortIDs(ids string) string {
	if len(ids) <= mostTaskIDs {
		return ids
	}
	return ids[:strings.LastIndexByte(ids[:mostTaskIDs], ',')+1] + "..."
}

// runNames returns what distinguishes the runs: the node, and the task or the attempt if they differ.
func runNames(p *Page) []string {
	first := &p.Runs[0].Summary.Run
	labels, attempts := false, false
	for i := range p.Runs {
		r := &p.Runs[i].Summary.Run
		labels = labels || r.Label() != first.Label()
		attempts = attempts || r.Attempt != first.Attempt
	}
	var names []string
	for i := range p.Runs {
		s := p.Runs[i].Summary
		name := cmp.Or(printable.Text(s.Run.Node), "-")
		if labels {
			name = cmp.Or(s.Run.Component(), s.Label) + " on " + name
		}
		if attempts {
			name += fmt.Sprintf(", attempt %d", s.Run.Attempt)
		}
		names = append(names, name)
	}
	return names
}

// dataOf packs the lines of all runs.
func dataOf(p *Page) pageData {
	offset := 0
	if first := p.Runs[0].Summary.Record.First; !first.IsZero() {
		_, offset = first.In(p.Zone).Zone()
	}
	d := pageData{Figures: figures[:], Shared: true, OffsetSecs: offset, Zone: zoneName(offset)}
	names := runNames(p)
	first := p.Runs[0].Summary
	for i := range p.Runs {
		s := p.Runs[i].Summary
		if p.Runs[i].Series == nil {
			continue
		}
		isSame := s.Label == first.Label && s.Run.Attempt == first.Run.Attempt
		d.Shared = d.Shared && isSame
		r := runData{Name: names[i], Levels: levelsOf(s), Marks: marksOf(s)}
		r.Packed = p.Runs[i].Series.pack(min(budgetPerRun, budgetOfAll/len(p.Runs)))
		r.Empty = emptyOf(s, r.Packed.Lines, r.Levels)
		r.Lanes = p.Runs[i].Series.lanes
		const most = 40
		r.More = max(0, len(r.Lanes)-most)
		if r.More > 0 {
			r.Lanes = r.Lanes[:most]
		}
		d.Runs = append(d.Runs, r)
	}
	return d
}

func zoneName(offset int) string {
	if offset == 0 {
		return "UTC"
	}
	sign := '+'
	if offset < 0 {
		sign, offset = '-', -offset
	}
	return fmt.Sprintf("UTC%c%02d:%02d", sign, offset/3600, offset/60%60)
}

func levelsOf(s *report.Summary) []level {
	var list []level
	add := func(figure, of string, value float64) {
		name := map[string]string{"cgroup": "limit", "allocation": "allocated", "node": "of the node", "container": "of the container"}[of]
		list = append(list, level{Figure: figure, Name: cmp.Or(name, "limit"), Value: value, Hidden: of == "node"})
	}
	if n, ok := s.CPU.Cores.Get(); ok {
		add(cpuFigure, s.CPU.CoresOf, float64(n))
	}
	if n, ok := s.Memory.LimitBytes.Get(); ok {
		add(memoryFigure, s.Memory.LimitOf, float64(n))
	}
	if n, ok := s.Memory.PeakBytes.Get(); ok && s.Memory.PeakOf == "kernel" {
		list = append(list, level{Figure: memoryFigure, Name: "the kernel's peak", Value: float64(n), IsPeak: true})
	}
	return list
}

func marksOf(s *report.Summary) []mark {
	var list []mark
	for i := range s.OOM {
		k := &s.OOM[i]
		text := fmt.Sprintf("%d killed", k.Kills)
		if k.Step != "" {
			text += ", step " + printable.Text(k.Step)
		}
		list = append(list, mark{memoryFigure, text, float64(k.Time.UnixMilli()) / 1000})
	}
	return list
}
