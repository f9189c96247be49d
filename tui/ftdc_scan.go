package tui

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/format/ftdc"
	"github.com/resource-tracker/rt/internal/errkind"
)

// file can be read several times.
type file struct {
	name  string
	text  []byte // content of standard input, which can be read only once
	first int64  // time of its first reading in ns since the epoch
}

func openFile(name string, stdin io.Reader) (file, error) {
	if name != "-" {
		st, err := os.Stat(name)
		if err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a file; - is standard input", name)
		}
		if err != nil {
			err = fmt.Errorf("ftdc: %w", err)
		}
		return file{name: name}, err
	}
	text, err := io.ReadAll(stdin)
	if err != nil {
		return file{}, fmt.Errorf("read standard input: %w", err)
	}
	return file{name: "standard input", text: text}, nil
}

func (f file) open() (io.ReadCloser, error) {
	if f.text != nil {
		return io.NopCloser(bytes.NewReader(f.text)), nil
	}
	return os.Open(f.name)
}

// row is one datum of a view: its time and a value for each of the names so far, NaN if
// it has none. The slices are reused, and names only grows.
type row struct {
	at     int64
	names  []string
	values []float64
	isRead []bool // also for a value that is NaN in the file
}

// scan visits the data of the view in order. It continues after the damage of a file with
// the next file and returns an ErrDamaged that names the place.
func (v *FTDCView) scan(visit func(*row) error) error {
	s := &scanner{view: v, index: map[string]int{}}
	var bad []error
	for _, f := range v.files {
		err := s.file(f, visit)
		var syntax *ftdc.SyntaxError
		switch {
		case errors.Is(err, errNotFTDC):
			bad = append(bad, fmt.Errorf("%s %w", f.name, err))
		case errors.As(err, &syntax) && syntax.Offset == 0:
			bad = append(bad, fmt.Errorf("%s: %w; nothing was read", f.name, err))
		case errors.As(err, &syntax):
			bad = append(bad, fmt.Errorf("%s: %w; the data before it was read", f.name, err))
		case err != nil:
			return err
		}
	}
	if len(bad) > 0 {
		return errkind.With(ErrDamaged, errors.Join(bad...))
	}
	return nil
}

type scanner struct {
	view    *FTDCView
	index   map[string]int // of a name in row.names
	columns []column       // of the newest schema
	row     row
	newest  int64     // time of a reading
	last    []float64 // of each name, for rates; NaN without one
	lastAt  []int64
}

// column is a metric of a schema.
type column struct{ name, value, rest int } // rest is -1 if there is none

func (s *scanner) file(f file, visit func(*row) error) (err error) {
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
		s.takeReading(at, dec.Values())
		if err := visit(&s.row); err != nil {
			return err
		}
	}
}

var errNotFTDC = errors.New("is not FTDC")

// whatElse checks for files that users mistake for FTDC.
func whatElse(text *bufio.Reader, name string) error {
	const sqlite = "SQLite format 3\x00"
	switch head, err := text.Peek(len(sqlite)); {
	case len(head) == 0 && err == io.EOF:
		return fmt.Errorf("%w: it is empty", errNotFTDC)
	case string(head) == sqlite:
		return fmt.Errorf("%w but a database like the files of a spool: rt-spool export --format ftdc %s writes it as FTDC", errNotFTDC, name)
	}
	return nil
}

// schema selects the columns. In a file of this program the metric with the name of another one and
// the suffix of rests belongs to that one.
func (s *scanner) schema(names []string) {
	isOwn := slices.ContainsFunc(names, ftdc.IsText)
	s.columns = s.columns[:0]
	in := make(map[string]int, len(names))
	for i, n := range names {
		in[n] = i
	}
	for i, n := range names {
		if base, ok := strings.CutSuffix(n, ftdc.RestSuffix); ok && isOwn {
			if _, pair := in[base]; pair {
				continue
			}
		}
		if s.view.match != nil && !s.view.match.MatchString(n) {
			continue
		}
		c := column{value: i, rest: -1}
		if rest, ok := in[n+ftdc.RestSuffix]; ok && isOwn {
			c.rest = rest
		}
		var known bool
		c.name, known = s.index[n]
		if !known {
			c.name = len(s.row.names)
			s.index[n] = c.name
			s.row.names = append(s.row.names, n)
			s.row.values, s.row.isRead = append(s.row.values, math.NaN()), append(s.row.isRead, false)
			s.last, s.lastAt = append(s.last, math.NaN()), append(s.lastAt, 0)
		}
		s.columns = append(s.columns, c)
	}
}

func (s *scanner) takeReading(at int64, values []float32) {
	s.row.at = at
	for i := range s.row.values {
		s.row.values[i], s.row.isRead[i] = math.NaN(), false
	}
	for _, c := range s.columns {
		v := float64(values[c.value])
		if c.rest >= 0 && !math.IsInf(v, 0) {
			v += float64(values[c.rest])
		}
		if s.view.rate {
			before, dt := s.last[c.name], float64(at-s.lastAt[c.name])/1e9
			s.last[c.name], s.lastAt[c.name] = v, at
			// A counter that decreased was reset: the growth is unknown.
			v = (v - before) / dt
			if dt <= 0 || v < 0 {
				v = math.NaN()
			}
		}
		isUnknownRate := s.view.rate && math.IsNaN(v)
		s.row.values[c.name], s.row.isRead[c.name] = v, !isUnknownRate
	}
}

// metric has the statistics of one metric over its finite values, NaN without one. last
// may be infinite.
type metric struct {
	name           string
	n              int
	min, max, last float64
	sum            float64
}

func (m *metric) addValue(v float64) {
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

func (m *metric) mean() float64 { return m.sum / float64(m.n) }

// FTDCSummary is the result of one pass over a view.
type FTDCSummary struct {
	data        int
	first, last int64 // ns since the epoch
	metrics     []metric
}

// Metrics returns how many metrics there are.
func (s *FTDCSummary) Metrics() int { return len(s.metrics) }

// Summarize reads the whole view. With an ErrDamaged it also returns what it read of
// the data in front of the damage.
func (v *FTDCView) Summarize() (*FTDCSummary, error) {
	sum := &FTDCSummary{}
	err := v.scan(func(r *row) error {
		sum.data++
		if sum.data == 1 {
			sum.first = r.at
		}
		sum.last = r.at
		for i := len(sum.metrics); i < len(r.names); i++ {
			sum.metrics = append(sum.metrics, metric{name: r.names[i], min: math.NaN(), max: math.NaN(), last: math.NaN()})
		}
		for i, x := range r.values {
			sum.metrics[i].addValue(x)
		}
		return nil
	})
	return sum, err
}
