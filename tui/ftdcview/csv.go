package ftdcview

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt/internal/printable"
)

// WriteCSV prints a column for every metric of the files, also of those that start
// late: a first pass collects the names. An empty cell was not read; NaN is a value.
func (v *View) WriteCSV(w io.Writer) error {
	sum, damage := v.Summarize()
	if damage != nil && !errors.Is(damage, ErrDamaged) {
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
	err := v.scan(func(r *row) error {
		line = time.Unix(0, r.at).UTC().AppendFormat(line[:0], time.RFC3339Nano)
		for i := range sum.metrics {
			line = append(line, ',')
			if i < len(r.values) && r.isRead[i] {
				line = appendNumber(line, r.values[i])
			}
		}
		_, err := out.Write(append(line, '\n'))
		return err
	})
	return errors.Join(err, out.Flush())
}

// appendNumber appends the fewest digits that identify a float32, and all digits of a
// whole number.
func appendNumber(dst []byte, v float64) []byte {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.AppendFloat(dst, v, 'f', -1, 64)
	case v == float64(float32(v)):
		return strconv.AppendFloat(dst, v, 'g', -1, 32)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// fewDigits returns v rounded to the digits of appendNumber.
func fewDigits(v float64) float64 {
	short, err := strconv.ParseFloat(string(appendNumber(nil, v)), 64)
	if err != nil {
		return v
	}
	return short
}

// quoted returns a cell of text. Characters that a terminal may interpret are escaped, \u0001: two names that
// differ in them stay two names. So is the backslash.
func quoted(s string) string {
	var b strings.Builder
	for _, c := range strings.ReplaceAll(s, `\`, `\\`) {
		switch {
		case printable.Is(string(c)):
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	s = printable.Cell(b.String())
	if strings.ContainsAny(s, ",\"\r\n") {
		return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
	}
	return s
}
