package rowcodec

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxValues bounds a block: its rows times its columns.
const MaxValues = 1 << 18

// ErrBlock is the error for a block that cannot be decoded.
var ErrBlock = errors.New("a block of rows does not decode")

// None stands for no column.
const None = -1

// The kinds of values.
const (
	isNull  = iota
	isInt   // int64
	isMilli // a float64 that is a number of thousandths
	isReal  // any other float64, by its bits
	isText
	isBlob
	numKinds
)

// kindOf returns the kind of a value, and its number: of a text or blob its length.
func kindOf(v driver.Value) (kind byte, number int64) {
	switch v := v.(type) {
	case int64:
		return isInt, v
	case float64:
		if math.Abs(v) < 1<<40 {
			milli := int64(math.Round(v * 1000))
			if math.Float64bits(float64(milli)/1000) == math.Float64bits(v) {
				return isMilli, milli
			}
		}
		return isReal, int64(math.Float64bits(v))
	case string:
		return isText, int64(len(v))
	case []byte:
		return isBlob, int64(len(v))
	}
	return isNull, 0
}

// bySeries returns the numbers of the rows in the order of their series, which the column key has,
// and the series of each row. Without a key all rows are one series.
func bySeries(rows [][]driver.Value, key int) (order, series []int) {
	order, series = make([]int, len(rows)), make([]int, len(rows))
	known := map[int64]int{}
	for i, row := range rows {
		order[i] = i
		if key == None {
			continue
		}
		id, _ := row[key].(int64)
		n, ok := known[id]
		if !ok {
			n = len(known)
			known[id] = n
		}
		series[i] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return series[a] - series[b] })
	return order, series
}

// Append encodes rows of a table with one column or more. key is the column with the number of the
// series to which the columns after it belong, or None. All rows have the same number of columns,
// and their values have the types of driver.Value without bool and time.Time.
func Append(dst []byte, key int, rows [][]driver.Value) []byte {
	dst = binary.AppendVarint(dst, int64(key))
	for c := range rows[0] {
		for _, row := range rows {
			kind, _ := kindOf(row[c])
			dst = append(dst, kind)
		}
	}
	var text []byte
	order, series := bySeries(rows, None)
	for c := range rows[0] {
		var lists [numKinds]numbers
		for _, n := range order {
			v := rows[n][c]
			kind, number := kindOf(v)
			lists[kind].add(number, series[n])
			switch v := v.(type) {
			case string:
				text = append(text, v...)
			case []byte:
				text = append(text, v...)
			}
		}
		for kind := isInt; kind < numKinds; kind++ {
			dst = lists[kind].append(dst)
		}
		if c == key {
			order, series = bySeries(rows, key)
		}
	}
	return append(dst, text...)
}

// Decode decodes a block of so many rows and columns.
func Decode(block []byte, count, width int) ([][]driver.Value, error) {
	if count < 1 || width < 1 || count > MaxValues/width {
		return nil, fmt.Errorf("%w: it has %d rows of %d columns", ErrBlock, count, width)
	}
	if count*width > len(block) {
		return nil, errCut
	}
	rows, values := make([][]driver.Value, count), make([]driver.Value, count*width)
	for i := range rows {
		rows[i] = values[i*width : (i+1)*width : (i+1)*width]
	}
	in := input{rest: block}
	key, err := in.varint()
	if err != nil {
		return nil, err
	}
	if key < None || key >= int64(width) {
		return nil, fmt.Errorf("%w: its key is column %d of %d", ErrBlock, key, width)
	}
	kinds, err := in.take(int64(count * width))
	if err != nil {
		return nil, err
	}
	if slices.Max(kinds) >= numKinds {
		return nil, fmt.Errorf("%w: a value is of kind %d", ErrBlock, slices.Max(kinds))
	}
	order, series := bySeries(rows, None)
	var texts []*driver.Value // in their order
	for c := range width {
		found, err := in.column(rows, c, kinds[c*count:(c+1)*count], order, series)
		if err != nil {
			return nil, err
		}
		texts = append(texts, found...)
		if int64(c) == key {
			order, series = bySeries(rows, c)
		}
	}
	return rows, in.texts(texts)
}

// textSize is the place of a text or blob of this length, until the text is read.
type textSize struct {
	size   int64
	isBlob bool
}

// column reads a column, and returns where its texts and blobs belong.
func (in *input) column(rows [][]driver.Value, c int, kinds []byte, order, series []int) (texts []*driver.Value, err error) {
	var lists [numKinds]numbers
	for _, n := range order {
		lists[kinds[n]].add(0, series[n])
	}
	for kind := isInt; kind < numKinds; kind++ {
		if err := lists[kind].read(in); err != nil {
			return nil, err
		}
	}
	var at [numKinds]int
	for _, n := range order {
		v, kind := &rows[n][c], kinds[n]
		number := lists[kind].values[at[kind]]
		at[kind]++
		switch kind {
		case isInt:
			*v = number
		case isMilli:
			*v = float64(number) / 1000
		case isReal:
			*v = math.Float64frombits(uint64(number))
		case isText, isBlob:
			*v = textSize{number, kind == isBlob}
			texts = append(texts, v)
		}
	}
	return texts, nil
}

// texts reads the texts and blobs, with which a block ends.
func (in *input) texts(list []*driver.Value) error {
	for _, v := range list {
		t := (*v).(textSize)
		text, err := in.take(t.size)
		if err != nil {
			return err
		}
		if t.isBlob {
			*v = append([]byte{}, text...)
		} else {
			*v = string(text)
		}
	}
	if len(in.rest) > 0 {
		return fmt.Errorf("%w: it has more than its rows", ErrBlock)
	}
	return nil
}
