package lake

import (
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/resource-tracker/rt"
)

// pageValues is the number of values, with nulls, after which a page ends.
const pageValues = 16 << 10

// chunk collects a column of a row group as typed values, and encodes them page by page. The columns of parquet-go take
// values of any type one by one, which takes several times as long.
type chunk struct {
	path    []string
	leaf    parquet.LeafColumn
	kind    parquet.Kind
	compare func(a, b parquet.Value) int
	page    page
	words   dictionary // of the texts
	encoded encodedChunk

	pageValues int // of a page
	untried    int // pages that are not compressed
}

// page is the values of a page that is open.
type page struct {
	rows        int
	repetitions []byte // only in lists
	definitions []byte
	ints        []int64
	doubles     []float64
	bools       []bool
	texts       []int32 // numbers in the dictionary
}

func (p *page) reset() {
	*p = page{0, p.repetitions[:0], p.definitions[:0], p.ints[:0], p.doubles[:0], p.bools[:0], p.texts[:0]}
}

// dictionary numbers the different texts of a row group.
type dictionary struct {
	numbers map[string]int32
	list    []string
	last    int32 // the number of the newest text
}

func (d *dictionary) number(text []byte) int32 {
	isLast := len(d.list) > 0 && d.list[d.last] == string(text)
	if isLast {
		return d.last
	}
	n, ok := d.numbers[string(text)]
	if !ok {
		return d.numberOf(string(text))
	}
	d.last = n
	return n
}

// numberOf is number for a text that is a string already.
func (d *dictionary) numberOf(text string) int32 {
	isLast := len(d.list) > 0 && d.list[d.last] == text
	if isLast {
		return d.last
	}
	n, ok := d.numbers[text]
	if !ok {
		n = int32(len(d.list))
		d.list = append(d.list, text)
		d.numbers[text] = n
	}
	d.last = n
	return n
}

// put adds values with their levels. A row may be in several calls.
func (c *chunk) put(values []parquet.Value) error {
	if len(values) > 0 && values[0].RepetitionLevel() == 0 {
		if err := c.endFullPage(); err != nil {
			return err
		}
	}
	p := &c.page
	for i := range values {
		v := &values[i]
		if v.RepetitionLevel() == 0 {
			p.rows++
		}
		if c.leaf.MaxRepetitionLevel > 0 {
			p.repetitions = append(p.repetitions, byte(v.RepetitionLevel()))
		}
		p.definitions = append(p.definitions, byte(v.DefinitionLevel()))
		if v.DefinitionLevel() == c.leaf.MaxDefinitionLevel {
			c.putValue(v)
		}
	}
	return nil
}

func (c *chunk) putValue(v *parquet.Value) {
	p := &c.page
	switch c.kind {
	case parquet.Int64:
		p.ints = append(p.ints, v.Int64())
	case parquet.Double:
		p.doubles = append(p.doubles, v.Double())
	case parquet.Boolean:
		p.bools = append(p.bools, v.Boolean())
	case parquet.ByteArray:
		p.texts = append(p.texts, c.words.number(v.ByteArray()))
	}
}

// putSame adds rows with the same number or text, in a column outside lists.
func (c *chunk) putSame(v parquet.Value, rows int) error {
	if v.IsNull() {
		return c.putNulls(rows)
	}
	if err := c.endFullPage(); err != nil {
		return err
	}
	switch c.kind {
	case parquet.Int64:
		c.page.ints = appendSame(c.page.ints, v.Int64(), rows)
	case parquet.ByteArray:
		c.page.texts = appendSame(c.page.texts, c.words.number(v.ByteArray()), rows)
	}
	c.page.rows += rows
	c.page.definitions = appendSame(c.page.definitions, 1, rows)
	return nil
}

func appendSame[T any](list []T, v T, n int) []T {
	list = slices.Grow(list, n)
	for range n {
		list = append(list, v)
	}
	return list
}

// putNulls adds rows without a value, or without a list.
func (c *chunk) putNulls(rows int) error {
	_, err := c.define(rows)
	return err
}

// define adds rows without values, and returns their definition levels.
func (c *chunk) define(rows int) ([]byte, error) {
	if err := c.endFullPage(); err != nil {
		return nil, err
	}
	p := &c.page
	p.rows += rows
	if c.leaf.MaxRepetitionLevel > 0 {
		p.repetitions = append(p.repetitions, make([]byte, rows)...)
	}
	n := len(p.definitions)
	p.definitions = append(p.definitions, make([]byte, rows)...)
	return p.definitions[n:], nil
}

// putBatch adds rows of a column in a list.
func (c *chunk) putBatch(of *pending, repetitions []byte, rows int) error {
	if err := c.endFullPage(); err != nil {
		return err
	}
	p := &c.page
	p.rows += rows
	p.repetitions, p.definitions = append(p.repetitions, repetitions...), append(p.definitions, of.definitions...)
	p.ints, p.doubles, p.bools = append(p.ints, of.ints...), append(p.doubles, of.doubles...), append(p.bools, of.bools...)
	for _, word := range of.words {
		p.texts = append(p.texts, c.words.numberOf(word))
	}
	return nil
}

// The functions below add a value for each row of a column outside lists.

func putUnsigned(c *chunk, values []rt.Opt[uint64]) error {
	levels, err := c.define(len(values))
	list := slices.Grow(c.page.ints, len(values))
	for i := range values {
		if v, ok := values[i].Get(); ok && i < len(levels) {
			levels[i] = 1
			list = append(list, int64(min(v, math.MaxInt64)))
		}
	}
	c.page.ints = list
	return err
}

func putSigned(c *chunk, values []rt.Opt[int64]) error {
	levels, err := c.define(len(values))
	list := slices.Grow(c.page.ints, len(values))
	for i := range values {
		if v, ok := values[i].Get(); ok && i < len(levels) {
			levels[i] = 1
			list = append(list, v)
		}
	}
	c.page.ints = list
	return err
}

func putDoubles(c *chunk, values []rt.Opt[float64]) error {
	levels, err := c.define(len(values))
	for i := range levels {
		if v, ok := values[i].Get(); ok {
			levels[i] = 1
			c.page.doubles = append(c.page.doubles, v)
		}
	}
	return err
}

func putTexts(c *chunk, values []rt.Opt[string]) error {
	levels, err := c.define(len(values))
	for i := range levels {
		if v, ok := values[i].Get(); ok {
			levels[i] = 1
			c.page.texts = append(c.page.texts, c.words.numberOf(v))
		}
	}
	return err
}
