package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"github.com/resource-tracker/rt"
	rtcli "github.com/resource-tracker/rt/internal/cli"
)

func ftdcCommand() *cli.Command {
	return &cli.Command{
		Name:      "ftdc",
		Usage:     "show the metrics of FTDC files: a list, plots, CSV or JSON",
		ArgsUsage: "FILE...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "metric", Aliases: []string{"m"}, Usage: "only metrics whose names match the regular expression `RE`"},
			&cli.StringFlag{Name: "from", Usage: "nothing before `TIME`: 2026-03-01T12:00:00Z, 12:00:30, or such as 10m after the first reading, -10m before the last"},
			&cli.StringFlag{Name: "to", Usage: "nothing after `TIME`"},
			&cli.BoolFlag{Name: "rate", Aliases: []string{"r"}, Usage: "growth per second in place of values, for counters"},
			&cli.BoolFlag{Name: "plot", Aliases: []string{"p"}, Usage: "draw each metric over time"},
			&cli.BoolFlag{Name: "csv", Usage: "print a row for each reading"},
			jsonFlag,
			&cli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "choose what is drawn on a full screen; its last line names the keys"},
			&cli.BoolFlag{Name: "any-time", Usage: "read on where the clock was set"},
		},
		OnUsageError: onUsageError,
		Action:       runFTDC,
	}
}

// maxPlots is how many metrics are drawn below each other.
const maxPlots = 50

func runFTDC(c *cli.Context) error {
	v, err := ftdcViewOf(c)
	if err != nil {
		return err
	}
	switch {
	case c.Bool("csv"):
		return buffered(c.App.Writer, v.writeCSV)
	case c.Bool("interactive"):
		return v.interact(c.Context, os.Stdin, c.App.Writer)
	}
	sum, damage := v.summarize()
	if damage != nil && !errors.Is(damage, errDamaged) {
		return damage
	}
	if v.overlap {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: the files overlap in time: what several recorders wrote is shown as if it were of one")
	}
	switch {
	case c.Bool("json"):
		return errors.Join(rtcli.PrintJSON(c.App.Writer, v.document(sum, damage)), damage)
	case len(sum.metrics) == 0 && damage != nil:
	case len(sum.metrics) == 0:
		_, err = fmt.Fprintln(c.App.Writer, "no metrics: nothing matches --metric, --from and --to")
	case c.Bool("plot"):
		if len(sum.metrics) > maxPlots {
			return rtcli.Usage("%d metrics match and at most %d are drawn; choose with --metric", len(sum.metrics), maxPlots)
		}
		err = v.writePlots(c.App.Writer, sum)
	default:
		err = v.writeList(c.App.Writer, sum)
	}
	return errors.Join(err, damage)
}

// ftdcViewOf is what the command line asks for.
func ftdcViewOf(c *cli.Context) (*ftdcView, error) {
	modes := 0
	for _, name := range []string{"plot", "csv", "json", "interactive"} {
		if c.Bool(name) {
			modes++
		}
	}
	if modes > 1 {
		return nil, rtcli.Usage("--plot, --csv, --json and --interactive exclude each other")
	}
	if c.NArg() == 0 {
		return nil, rtcli.Usage("ftdc takes the FILEs to show, or - for standard input")
	}
	v := &ftdcView{from: math.MinInt64, to: math.MaxInt64, rate: c.Bool("rate"), anyTime: c.Bool("any-time")}
	for _, name := range c.Args().Slice() {
		f, err := openFTDC(name, os.Stdin)
		if err != nil {
			return nil, err
		}
		v.files = append(v.files, f)
	}
	if re := c.String("metric"); re != "" {
		var err error
		if v.match, err = regexp.Compile(re); err != nil {
			return nil, rtcli.Usage("--metric: %w", err)
		}
	}
	v.inOrder()
	return v, v.bound(c.String("from"), c.String("to"))
}

func (v *ftdcView) writeList(w io.Writer, sum *ftdcSummary) error {
	of := ""
	if n := len(v.files); n > 1 {
		of = fmt.Sprintf(" of %d files", n)
	}
	fmt.Fprintf(w, "%d readings%s from %s to %s\n", sum.data, of, localTime(sum.first), localTime(sum.last))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	var said []string
	for i := range sum.metrics {
		m := &sum.metrics[i]
		if saysWords(m.name) {
			said = append(said, m.name)
			continue
		}
		if i == len(said) {
			fmt.Fprintln(tw, "MIN\tMEAN\tMAX\tLAST\tREADINGS\t  METRIC")
		}
		if m.n == 0 {
			fmt.Fprintf(tw, "-\t-\t-\t%s\t0\t  %s\n", exact(m.last), printable(m.name))
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%d\t  %s\n", exact(m.min), exact(m.mean()), exact(m.max), exact(m.last), m.n, printable(m.name))
	}
	err := tw.Flush()
	for _, name := range said {
		fmt.Fprintln(w, printable(name))
	}
	return err
}

func localTime(ns int64) string {
	return time.Unix(0, ns).Format("2006-01-02T15:04:05.999Z07:00")
}

// exact shows whole numbers whole, and 6 digits of the others.
func exact(v float64) string {
	switch {
	case v != v:
		return "-"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func (v *ftdcView) writePlots(w io.Writer, sum *ftdcSummary) error {
	width, _ := terminalSize(w)
	s, err := v.series(sum, width-axisWidth)
	if err != nil && !errors.Is(err, errDamaged) { // the damage is told of by who has read it first
		return err
	}
	for i, name := range s.names {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if _, err := io.WriteString(w, plot(name, s.values[i], sum, width, 13)); err != nil {
			return err
		}
	}
	return nil
}

// terminalSize is the size of the terminal, 80 x 24 where there is none.
func terminalSize(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width, height
		}
	}
	return 80, 24
}

// writeCSV prints a column for every metric of the files, also of those that come
// late: they are known after a first pass.
func (v *ftdcView) writeCSV(w io.Writer) error {
	sum, damage := v.summarize()
	if damage != nil && !errors.Is(damage, errDamaged) {
		return damage
	}
	out := bufio.NewWriter(w)
	out.WriteString("time")
	for i := range sum.metrics {
		out.WriteByte(',')
		out.WriteString(quoted(sum.metrics[i].name))
	}
	out.WriteByte('\n')
	var line []byte
	err := v.scan(func(r *ftdcRow) error {
		line = time.Unix(0, r.at).UTC().AppendFormat(line[:0], time.RFC3339Nano)
		for i := range sum.metrics {
			line = append(line, ',')
			if i < len(r.values) && r.values[i] == r.values[i] {
				line = appendNumber(line, r.values[i])
			}
		}
		_, err := out.Write(append(line, '\n'))
		return err
	})
	return errors.Join(err, out.Flush())
}

// appendNumber appends as few digits as say which float32 it was, and all of a whole
// number.
func appendNumber(dst []byte, v float64) []byte {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	case v == float64(float32(v)):
		return strconv.AppendFloat(dst, v, 'g', -1, 32)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// fewDigits is the number of fewest digits that is the same float32, where v is one.
func fewDigits(v float64) float64 {
	short, err := strconv.ParseFloat(string(appendNumber(nil, v)), 64)
	if err != nil {
		return v
	}
	return short
}

// quoted is a field of CSV.
func quoted(s string) string {
	if strings.ContainsAny(s, ",\"\r\n") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}

// ftdcDocument is the JSON of ftdc --json.
type ftdcDocument struct {
	Files    []string     `json:"files"`
	Readings int          `json:"readings"`
	First    *time.Time   `json:"first"`
	Last     *time.Time   `json:"last"`
	Rate     bool         `json:"rate"` // growth per second in place of values
	Metrics  []ftdcMetric `json:"metrics"`
	Error    string       `json:"error,omitempty"` // where a file is damaged
}

type ftdcMetric struct {
	Name     string          `json:"name"`
	Readings int             `json:"readings"` // finite ones
	Min      rt.Opt[float64] `json:"min"`
	Mean     rt.Opt[float64] `json:"mean"`
	Max      rt.Opt[float64] `json:"max"`
	Last     rt.Opt[float64] `json:"last"` // null also where it is infinite
}

func (v *ftdcView) document(sum *ftdcSummary, damage error) ftdcDocument {
	d := ftdcDocument{Readings: sum.data, Rate: v.rate, Metrics: []ftdcMetric{}}
	for _, f := range v.files {
		d.Files = append(d.Files, f.name)
	}
	if damage != nil {
		d.Error = damage.Error()
	}
	if sum.data > 0 {
		first, last := time.Unix(0, sum.first).UTC(), time.Unix(0, sum.last).UTC()
		d.First, d.Last = &first, &last
	}
	for i := range sum.metrics {
		m := &sum.metrics[i]
		j := ftdcMetric{Name: m.name, Readings: m.n}
		if m.n > 0 {
			j.Min, j.Mean, j.Max = rt.Some(fewDigits(m.min)), rt.Some(m.mean()), rt.Some(fewDigits(m.max))
		}
		if m.last == m.last && !math.IsInf(m.last, 0) {
			j.Last.Set(fewDigits(m.last))
		}
		d.Metrics = append(d.Metrics, j)
	}
	return d
}
