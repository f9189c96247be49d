package rowcodec

import (
	"bytes"
	"compress/flate"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/resource-tracker/rt/spool/internal/codec"
)

// Limits of a block.
const (
	MaxValues = 1 << 18 // rows times columns
	MaxText   = 4 << 20 // bytes of its texts and blobs

	maxCores    = 64 << 10 // bytes of a blob that is split
	maxElements = 1 << 20  // numbers of the blobs that are split
)

// ErrBlock is the error for a block that cannot be decoded.
var ErrBlock = errors.New("a block of rows does not decode")

// None stands for no column.
const None = -1

// Plan describes how the columns of a table are predicted.
type Plan struct {
	Key   int          // column of integers with the series to which the later columns belong, or None
	Hints map[int]Hint // of some columns
}

// Hint predicts a column from other columns of its row: as Like, or as Like minus Less unless that is
// None. A column that another one names has no hint, or one without a Less if it is named as Less.
type Hint struct{ Like, Less int }

// The kinds of values.
const (
	isNull  = iota
	isInt   // int64
	isMilli // a float64 that is a number of thousandths
	isReal  // any other float64
	isText
	isBlob
	isCores // a blob that codec.Split splits
	numKinds
)

const kindTree = 8

// kindOf returns the kind of a value, and its number.
func kindOf(v driver.Value) (kind int, number int64) {
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
		if list, ok := coresOf(v); ok {
			return isCores, int64(len(list))
		}
		return isBlob, int64(len(v))
	}
	return isNull, 0
}

// coresOf splits a blob of core_ticks of a plausible size.
func coresOf(blob []byte) (list []int64, ok bool) {
	if len(blob) > maxCores {
		return nil, false
	}
	return codec.Split(blob)
}

// table is the state that encoding and decoding of a block share.
type table struct {
	rows   [][]driver.Value
	width  int
	plan   Plan
	head   number // of the plan and of the series
	series []int  // the series of each row
	count  int
}

// order returns the columns in the order of coding: a column follows those that its hint names.
func (t *table) order() []int {
	var list [3][]int
	for i := range t.width {
		pass := 0
		if h, ok := t.plan.Hints[i]; ok && h.Less != None {
			pass = 2
		} else if ok {
			pass = 1
		}
		list[pass] = append(list[pass], i)
	}
	return append(append(list[0], list[1]...), list[2]...)
}

// setSeries finds the series of the rows by the column Key, which is complete.
func (t *table) setSeries() {
	t.series, t.count = make([]int, len(t.rows)), 1
	if t.plan.Key == None {
		return
	}
	known := map[int64]int{}
	for i, row := range t.rows {
		key, _ := row[t.plan.Key].(int64)
		n, ok := known[key]
		if !ok {
			n = len(known)
			known[key] = n
		}
		t.series[i] = n
	}
	t.count = len(known)
}

// column returns the series of the rows for a column, and their number.
func (t *table) column(i int) (of func(row int) int, count int) {
	if i <= t.plan.Key || t.plan.Key == None {
		return func(int) int { return 0 }, 1
	}
	return func(row int) int { return t.series[row] }, t.count
}

// predicted returns the prediction of the integer in a column by its hint.
func (t *table) predicted(column, row int) int64 {
	h, ok := t.plan.Hints[column]
	if !ok {
		return 0
	}
	v, _ := t.rows[row][h.Like].(int64)
	if h.Less != None {
		less, _ := t.rows[row][h.Less].(int64)
		v -= less
	}
	return v
}

// blockEncoder encodes one block.
type blockEncoder struct {
	table
	*encoder
	text []byte
}

// Append encodes rows of a table with one column or more. All rows have the same number of
// columns, and their values are those of driver.Value without bool and time.Time.
func Append(dst []byte, plan Plan, rows [][]driver.Value) []byte {
	b := blockEncoder{table: table{rows: rows, plan: plan, width: len(rows[0])}, encoder: newEncoder(nil)}
	b.setSeries()
	b.writePlan()
	for _, i := range b.order() {
		b.column(i)
	}
	body := b.end()
	dst = binary.AppendUvarint(dst, uint64(len(body)))
	dst = append(dst, body...)
	dst = binary.AppendUvarint(dst, uint64(len(b.text)))
	if len(b.text) == 0 {
		return dst
	}
	return append(dst, deflate(b.text)...)
}

func (b *blockEncoder) writePlan() {
	b.head.encode(b.encoder, int64(b.plan.Key))
	for i := range b.width {
		h, ok := b.plan.Hints[i]
		if !ok {
			h = Hint{None, None}
		}
		b.head.encode(b.encoder, int64(h.Like))
		if ok {
			b.head.encode(b.encoder, int64(h.Less))
		}
	}
}

func (b *blockEncoder) column(i int) {
	seriesOf, count := b.table.column(i)
	lists := make([]series, numKinds)
	last := make([]uint8, count)
	var kinds [numKinds][kindTree]bit
	var elements [][]int64
	for n, row := range b.rows {
		k := seriesOf(n)
		kind, number := kindOf(row[i])
		encodeTree(b.encoder, kinds[last[k]][:], kind)
		last[k] = uint8(kind)
		switch kind {
		case isInt:
			number -= b.predicted(i, n)
		case isText:
			b.text = append(b.text, row[i].(string)...)
		case isBlob:
			b.text = append(b.text, row[i].([]byte)...)
		case isCores:
			list, _ := coresOf(row[i].([]byte))
			elements = append(elements, list)
		}
		lists[kind].values = append(lists[kind].values, number)
		lists[kind].of = append(lists[kind].of, k)
	}
	for kind := isInt; kind < numKinds; kind++ {
		if l := &lists[kind]; len(l.values) > 0 {
			l.count = count
			l.encode(b.encoder, &b.head)
		}
	}
	if len(elements) > 0 {
		flat := flatten(lists[isCores].values)
		for _, list := range elements {
			flat.values = append(flat.values, list...)
		}
		flat.encode(b.encoder, &b.head)
	}
}

// flatten returns the series of the elements of lists with these lengths: elements belong to one
// series if their position and the length of their list are the same.
func flatten(lengths []int64) series {
	s := series{}
	first := map[int64]int{}
	for _, n := range lengths {
		at, ok := first[n]
		if !ok {
			at = s.count
			first[n] = at
			s.count += int(n)
		}
		for i := range int(n) {
			s.of = append(s.of, at+i)
		}
	}
	return s
}

func deflate(text []byte) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // a bytes.Buffer takes everything
	}
	return out.Bytes()
}

// blockDecoder is the reverse of blockEncoder.
type blockDecoder struct {
	table
	*decoder
	text     []byte
	elements int // that are left of maxElements
}

// Decode decodes a block of so many rows and columns.
func Decode(block []byte, rows, width int) ([][]driver.Value, error) {
	if rows < 1 || width < 1 || rows > MaxValues/width {
		return nil, fmt.Errorf("%w: it has %d rows of %d columns", ErrBlock, rows, width)
	}
	size, n := binary.Uvarint(block)
	if n <= 0 || size > uint64(len(block)-n) {
		return nil, fmt.Errorf("%w: it is cut", ErrBlock)
	}
	body, rest := block[n:n+int(size)], block[n+int(size):]
	text, err := inflate(rest)
	if err != nil {
		return nil, err
	}
	b := blockDecoder{table: table{width: width}, decoder: newDecoder(body), text: text, elements: maxElements}
	b.rows = make([][]driver.Value, rows)
	values := make([]driver.Value, rows*width)
	for i := range b.rows {
		b.rows[i] = values[i*width : (i+1)*width : (i+1)*width]
	}
	if err := b.readPlan(); err != nil {
		return nil, err
	}
	b.series, b.count = make([]int, rows), 1
	for _, i := range b.order() {
		if err := b.column(i); err != nil {
			return nil, err
		}
		if i == b.plan.Key {
			b.setSeries()
		}
	}
	if isRest := b.at < len(body) || len(b.text) > 0; isRest {
		return nil, fmt.Errorf("%w: it has more than %d rows", ErrBlock, rows)
	}
	return b.rows, nil
}

func inflate(data []byte) ([]byte, error) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > MaxText {
		return nil, fmt.Errorf("%w: its texts are too long, or cut", ErrBlock)
	}
	if size == 0 {
		return nil, nil
	}
	r := flate.NewReader(bytes.NewReader(data[n:]))
	text, err := io.ReadAll(io.LimitReader(r, int64(size)+1))
	if err != nil {
		return nil, fmt.Errorf("%w: its texts: %w", ErrBlock, err)
	}
	if uint64(len(text)) != size {
		return nil, fmt.Errorf("%w: its texts have another length than it says", ErrBlock)
	}
	return text, nil
}

func (b *blockDecoder) readPlan() error {
	key := b.head.decode(b.decoder)
	if key < None || key >= int64(b.width) {
		return fmt.Errorf("%w: its key is column %d of %d", ErrBlock, key, b.width)
	}
	b.plan = Plan{Key: int(key), Hints: map[int]Hint{}}
	for i := range b.width {
		like := b.head.decode(b.decoder)
		if like == None {
			continue
		}
		less := b.head.decode(b.decoder)
		isColumn := like >= 0 && like < int64(b.width) && less >= None && less < int64(b.width)
		if !isColumn {
			return fmt.Errorf("%w: column %d depends on the columns %d and %d of %d", ErrBlock, i, like, less, b.width)
		}
		b.plan.Hints[i] = Hint{int(like), int(less)}
	}
	if _, ok := b.plan.Hints[b.plan.Key]; ok {
		return fmt.Errorf("%w: its key depends on another column", ErrBlock)
	}
	return nil
}

func (b *blockDecoder) column(i int) error {
	seriesOf, count := b.table.column(i)
	lists := make([]series, numKinds)
	last := make([]uint8, count)
	var tree [numKinds][kindTree]bit
	kinds := make([]uint8, len(b.rows))
	for n := range b.rows {
		k := seriesOf(n)
		kind := decodeTree(b.decoder, tree[last[k]][:])
		if kind >= numKinds {
			return fmt.Errorf("%w: a value is of kind %d", ErrBlock, kind)
		}
		last[k], kinds[n] = uint8(kind), uint8(kind)
		lists[kind].of = append(lists[kind].of, k)
	}
	for kind := isInt; kind < numKinds; kind++ {
		if l := &lists[kind]; len(l.of) > 0 {
			l.values, l.count = make([]int64, len(l.of)), count
			l.decode(b.decoder, &b.head)
		}
	}
	var flat series
	if lengths := lists[isCores].values; len(lengths) > 0 {
		for _, n := range lengths {
			if n < 1 || n > int64(b.elements) {
				return fmt.Errorf("%w: its blobs are too long", ErrBlock)
			}
			b.elements -= int(n)
		}
		flat = flatten(lengths)
		flat.values = make([]int64, len(flat.of))
		flat.decode(b.decoder, &b.head)
	}
	if b.isOver() {
		return fmt.Errorf("%w: it is cut", ErrBlock)
	}
	return b.fill(i, kinds, lists, flat.values)
}

// fill stores the values of a column.
func (b *blockDecoder) fill(i int, kinds []uint8, lists []series, elements []int64) error {
	for n, kind := range kinds {
		if kind == isNull {
			continue
		}
		v := lists[kind].values[0]
		lists[kind].values = lists[kind].values[1:]
		takesText := kind == isText || kind == isBlob
		if takesText && uint64(v) > uint64(len(b.text)) {
			return fmt.Errorf("%w: a text is longer than all of them", ErrBlock)
		}
		switch kind {
		case isInt:
			b.rows[n][i] = v + b.predicted(i, n)
		case isMilli:
			b.rows[n][i] = float64(v) / 1000
		case isReal:
			b.rows[n][i] = math.Float64frombits(uint64(v))
		case isText:
			b.rows[n][i], b.text = string(b.text[:v]), b.text[v:]
		case isBlob:
			b.rows[n][i], b.text = append([]byte{}, b.text[:v]...), b.text[v:]
		case isCores:
			b.rows[n][i], elements = codec.Join(elements[:v]), elements[v:]
		}
	}
	return nil
}
