package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"strings"
	"unicode"

	"github.com/resource-tracker/rt/format/ftdc"
	rtcli "github.com/resource-tracker/rt/internal/cli"
)

// ftdcView is what is looked at of some FTDC files, which follow each other in time.
type ftdcView struct {
	files    []ftdcFile
	match    *regexp.Regexp // of a metric's name; nil for all
	from, to int64          // ns since the epoch, both in it
	rate     bool           // growth per second in place of values
	anyTime  bool
	overlap  bool // was found: a file begins before the one before it ends
}

// ftdcFile can be read again and again.
type ftdcFile struct {
	name  string
	text  []byte // of what cannot be, as standard input
	first int64  // when its first reading was taken, in ns since the epoch
}

func openFTDC(name string, stdin io.Reader) (ftdcFile, error) {
	if name != "-" {
		st, err := os.Stat(name)
		if err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a file; - is standard input", name)
		}
		if err != nil {
			err = fmt.Errorf("ftdc: %w", err)
		}
		return ftdcFile{name: name}, err
	}
	text, err := io.ReadAll(stdin)
	if err != nil {
		return ftdcFile{}, fmt.Errorf("read standard input: %w", err)
	}
	return ftdcFile{name: "standard input", text: text}, nil
}

func (f ftdcFile) open() (io.ReadCloser, error) {
	if f.text != nil {
		return io.NopCloser(bytes.NewReader(f.text)), nil
	}
	return os.Open(f.name)
}

// ftdcRow is one datum of a view: its time and a value for each of the names so far, NaN
// where it has none. Both slices are reused, and names grows at its end.
type ftdcRow struct {
	at     int64
	names  []string
	values []float64
}

// scan visits the data of the view in order. Where a file is damaged, it goes on with
// the next, and the error, which is errDamaged, names the place.
func (v *ftdcView) scan(visit func(*ftdcRow) error) error {
	s := &ftdcScan{view: v, index: map[string]int{}}
	var bad []error
	for _, f := range v.files {
		err := s.file(f, visit)
		var syntax *ftdc.SyntaxError
		switch {
		case errors.Is(err, errNotFTDC):
			bad = append(bad, fmt.Errorf("%s %w", f.name, err))
		case errors.As(err, &syntax):
			bad = append(bad, fmt.Errorf("%s: %w; what stands before it was read", f.name, err))
		case err != nil:
			return err
		}
	}
	if len(bad) > 0 {
		return rtcli.WithKind(errDamaged, errors.Join(bad...))
	}
	return nil
}

// ftdcScan goes through files once.
type ftdcScan struct {
	view    *ftdcView
	index   map[string]int // of a name in row.names
	columns []ftdcColumn   // of the newest schema
	row     ftdcRow
	newest  int64     // time of a reading
	last    []float64 // of each name, for rates; NaN before
	lastAt  []int64
}

// ftdcColumn is a metric of a schema.
type ftdcColumn struct{ name, value, rest int } // rest is -1 where there is none

func (s *ftdcScan) file(f ftdcFile, visit func(*ftdcRow) error) (err error) {
	r, err := f.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	text := bufio.NewReader(r)
	if err := whatElse(text, f.name); err != nil {
		return err
	}
	dec := ftdc.NewDecoder(text)
	dec.AnyTime = s.view.anyTime
	begun := false
	for schemas := 0; ; {
		at, err := dec.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if dec.Schemas() != schemas {
			schemas = dec.Schemas()
			s.schema(dec.Names())
		}
		if !begun {
			begun, s.view.overlap = true, s.view.overlap || at < s.newest
		}
		s.newest = at
		if at < s.view.from || at > s.view.to {
			continue
		}
		s.take(at, dec.Values())
		if err := visit(&s.row); err != nil {
			return err
		}
	}
}

// errNotFTDC says that a file is something else.
var errNotFTDC = errors.New("is not FTDC")

// whatElse looks at how a file begins, for what people take for FTDC.
func whatElse(text *bufio.Reader, name string) error {
	const sqlite = "SQLite format 3\x00"
	switch head, err := text.Peek(len(sqlite)); {
	case len(head) == 0 && err == io.EOF:
		return fmt.Errorf("%w: it is empty", errNotFTDC)
	case string(head) == sqlite:
		return fmt.Errorf("%w but a database, as the files of a spool are: rt-spool export --format ftdc %s writes what is in it as FTDC", errNotFTDC, name)
	}
	return nil
}

// schema finds the columns that are looked at. A metric whose name is that of another
// and _rest belongs to it.
func (s *ftdcScan) schema(names []string) {
	s.columns = s.columns[:0]
	in := make(map[string]int, len(names))
	for i, n := range names {
		in[n] = i
	}
	for i, n := range names {
		if base, ok := strings.CutSuffix(n, restSuffix); ok {
			if _, pair := in[base]; pair {
				continue
			}
		}
		if s.view.match != nil && !s.view.match.MatchString(n) {
			continue
		}
		c := ftdcColumn{value: i, rest: -1}
		if rest, ok := in[n+restSuffix]; ok {
			c.rest = rest
		}
		var known bool
		if c.name, known = s.index[n]; !known {
			c.name = len(s.row.names)
			s.index[n] = c.name
			s.row.names = append(s.row.names, n)
			s.row.values = append(s.row.values, math.NaN())
			s.last, s.lastAt = append(s.last, math.NaN()), append(s.lastAt, 0)
		}
		s.columns = append(s.columns, c)
	}
}

// take makes the row of a datum.
func (s *ftdcScan) take(at int64, values []float32) {
	s.row.at = at
	for i := range s.row.values {
		s.row.values[i] = math.NaN()
	}
	for _, c := range s.columns {
		v := float64(values[c.value])
		if c.rest >= 0 && !math.IsInf(v, 0) {
			v = join(values[c.value], values[c.rest])
		}
		if s.view.rate {
			before, dt := s.last[c.name], float64(at-s.lastAt[c.name])/1e9
			s.last[c.name], s.lastAt[c.name] = v, at
			// A counter that went backwards was set anew: nothing is known of that time.
			if v = (v - before) / dt; dt <= 0 || v < 0 {
				v = math.NaN()
			}
		}
		s.row.values[c.name] = v
	}
}

// metricStats is what list shows of one metric. Only finite values count, but for
// Last, which is NaN before there is one.
type metricStats struct {
	name           string
	n              int
	min, max, last float64
	sum            float64
}

func (m *metricStats) add(v float64) {
	if v != v {
		return
	}
	m.last = v
	if math.IsInf(v, 0) {
		return
	}
	if m.n == 0 || v < m.min {
		m.min = v
	}
	if m.n == 0 || v > m.max {
		m.max = v
	}
	m.n++
	m.sum += v
}

func (m *metricStats) mean() float64 { return m.sum / float64(m.n) }

// ftdcSummary is what one pass over a view finds.
type ftdcSummary struct {
	data        int
	first, last int64 // ns since the epoch
	metrics     []metricStats
}

// summarize also returns what stands before a place of damage.
func (v *ftdcView) summarize() (*ftdcSummary, error) {
	sum := &ftdcSummary{}
	err := v.scan(func(r *ftdcRow) error {
		if sum.data++; sum.data == 1 {
			sum.first = r.at
		}
		sum.last = r.at
		for i := len(sum.metrics); i < len(r.names); i++ {
			sum.metrics = append(sum.metrics, metricStats{name: r.names[i], last: math.NaN()})
		}
		for i, x := range r.values {
			sum.metrics[i].add(x)
		}
		return nil
	})
	return sum, err
}

// printable replaces what a terminal would take for a command.
func printable(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return unicode.ReplacementChar
	}, name)
}
