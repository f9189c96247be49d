package lake

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// encodedChunk is the pages of a column of a row group, as they are in the file.
type encodedChunk struct {
	body      []byte
	plainSize int64 // of the pages before compression, with headers
	rows      int64
	values    int64
	nulls     int64
	bounds    bounds
	places    []format.PageLocation
	index     parquet.ColumnIndexer
	space     space
}

// space is memory that is used for one page after the other.
type space struct{ repetitions, definitions, plain, packed []byte }

// bounds are the least and the greatest value; null: there is none.
type bounds struct{ least, most parquet.Value }

// indexText is how much of a text the index of pages has, in bytes.
const indexText = 64

// untriedPages is the number of pages of a column that are not compressed after one that did not become smaller. A page
// with fewer bytes than smallPage says nothing about the next ones.
const (
	untriedPages = 7
	smallPage    = 4 << 10
)

// codec compresses pages. Its fastest level needs a quarter less processor time for all of a file than the default one,
// which makes files a seventh smaller.
var codec compress.Codec = &zstd.Codec{Level: zstd.SpeedFastest}

func newChunk(schema *parquet.Schema, path []string) *chunk {
	leaf, _ := schema.Lookup(path...)
	t := leaf.Node.Type()
	c := &chunk{path: path, leaf: leaf, kind: t.Kind(), compare: t.Compare, pageValues: pageValues, words: dictionary{numbers: map[string]int32{}}}
	c.encoded.index = t.NewColumnIndexer(indexText)
	return c
}

// reset drops all values.
func (c *chunk) reset() {
	c.page.reset()
	clear(c.words.numbers)
	c.words.list, c.words.last = c.words.list[:0], 0
	e := &c.encoded
	e.index.Reset()
	c.encoded = encodedChunk{body: e.body[:0], index: e.index, space: e.space}
}

// endFullPage ends the page if it is full.
func (c *chunk) endFullPage() error {
	if len(c.page.definitions) < c.pageValues {
		return nil
	}
	return c.endPage()
}

// endPage encodes the page that is open.
func (c *chunk) endPage() (err error) {
	p, e := &c.page, &c.encoded
	if p.rows == 0 {
		return nil
	}
	count, s := len(p.definitions), &e.space
	present := len(p.ints) + len(p.doubles) + len(p.bools) + len(p.texts)
	s.repetitions, err = encodeLevels(s.repetitions, p.repetitions, c.leaf.MaxRepetitionLevel)
	if err == nil {
		s.definitions, err = encodeLevels(s.definitions, p.definitions, c.leaf.MaxDefinitionLevel)
	}
	if err == nil {
		s.plain, err = c.encodeValues(s.plain[:0])
	}
	packed, isPacked := s.plain, false
	if err == nil {
		packed, isPacked, err = c.compress(s.plain)
	}
	if err != nil {
		return fmt.Errorf("encode a page: %w", err)
	}
	levels := len(s.repetitions) + len(s.definitions)
	h := format.PageHeader{
		Type:                 format.DataPageV2,
		UncompressedPageSize: int32(levels + len(s.plain)),
		CompressedPageSize:   int32(levels + len(packed)),
		CRC:                  int32(crcOf(s.repetitions, s.definitions, packed)),
		DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{
			NumValues: int32(count), NumNulls: int32(count - present), NumRows: int32(p.rows), Encoding: c.encoding(),
			DefinitionLevelsByteLength: int32(len(s.definitions)), RepetitionLevelsByteLength: int32(len(s.repetitions)), IsCompressed: thrift.New(isPacked),
		}),
	}
	start := len(e.body)
	e.body, err = appendPage(e.body, &h, s.repetitions, s.definitions, packed)
	if err != nil {
		return err
	}
	size := len(e.body) - start
	e.places = append(e.places, format.PageLocation{Offset: int64(start), CompressedPageSize: int32(size), FirstRowIndex: e.rows})
	e.plainSize += int64(size - len(packed) + len(s.plain))
	e.rows, e.values, e.nulls = e.rows+int64(p.rows), e.values+int64(count), e.nulls+int64(count-present)
	of := c.boundsOfPage()
	e.index.IndexPage(int64(count), int64(count-present), of.least, of.most)
	c.widen(of)
	p.reset()
	return nil
}

// compress compresses the values of a page. If that hardly makes a page smaller, the next pages of
// the column are not compressed.
func (c *chunk) compress(plain []byte) (packed []byte, isPacked bool, err error) {
	isSmall := len(plain) < smallPage
	if c.untried > 0 && !isSmall {
		c.untried--
		return plain, false, nil
	}
	s := &c.encoded.space
	s.packed, err = codec.Encode(s.packed[:0], plain)
	isSmaller := len(s.packed) < len(plain)*31/32
	if err != nil || isSmaller {
		return s.packed, true, err
	}
	if !isSmall {
		c.untried = untriedPages
	}
	return plain, false, nil
}

func crcOf(parts ...[]byte) (sum uint32) {
	for _, p := range parts {
		sum = crc32.Update(sum, crc32.IEEETable, p)
	}
	return sum
}

// appendPage appends the header of a page and its content.
func appendPage(to []byte, h *format.PageHeader, parts ...[]byte) ([]byte, error) {
	header, err := thrift.Marshal(new(thrift.CompactProtocol), h)
	if err != nil {
		return nil, fmt.Errorf("encode the header of a page: %w", err)
	}
	to = append(to, header...)
	for _, p := range parts {
		to = append(to, p...)
	}
	return to, nil
}

func encodeLevels(to, levels []byte, highest int) ([]byte, error) {
	if highest == 0 {
		return to[:0], nil
	}
	e := rle.Encoding{BitWidth: bits.Len(uint(highest))}
	return e.EncodeLevels(to[:0], levels)
}

// encoding is the encoding of the values.
func (c *chunk) encoding() format.Encoding {
	switch c.kind {
	case parquet.Int64:
		return format.DeltaBinaryPacked
	case parquet.ByteArray:
		return format.RLEDictionary
	}
	return format.Plain
}

func (c *chunk) encodeValues(to []byte) ([]byte, error) {
	p := &c.page
	switch c.kind {
	case parquet.Int64:
		return new(delta.BinaryPackedEncoding).EncodeInt64(to, p.ints)
	case parquet.ByteArray:
		return new(rle.DictionaryEncoding).EncodeInt32(to, p.texts)
	case parquet.Double:
		for _, v := range p.doubles {
			to = binary.LittleEndian.AppendUint64(to, math.Float64bits(v))
		}
		return to, nil
	}
	to = append(to, make([]byte, (len(p.bools)+7)/8)...)
	for i, v := range p.bools {
		if v {
			to[i/8] |= 1 << (i % 8)
		}
	}
	return to, nil
}

// boundsOfPage returns the least and the greatest value of the page.
func (c *chunk) boundsOfPage() (b bounds) {
	p := &c.page
	switch {
	case len(p.ints) > 0:
		return bounds{parquet.Int64Value(slices.Min(p.ints)), parquet.Int64Value(slices.Max(p.ints))}
	case len(p.doubles) > 0:
		least, most := slices.Min(p.doubles), slices.Max(p.doubles)
		if math.IsNaN(least) { // one of them is
			least, most = math.Inf(-1), math.Inf(1)
		}
		return bounds{parquet.DoubleValue(least), parquet.DoubleValue(most)}
	case len(p.bools) > 0:
		return bounds{parquet.BooleanValue(!slices.Contains(p.bools, false)), parquet.BooleanValue(slices.Contains(p.bools, true))}
	case len(p.texts) > 0:
		order := func(a, b int32) int {
			if a == b {
				return 0
			}
			return cmp.Compare(c.words.list[a], c.words.list[b])
		}
		return bounds{text(c.words.list[slices.MinFunc(p.texts, order)]), text(c.words.list[slices.MaxFunc(p.texts, order)])}
	}
	return b
}

// widen makes the bounds of the row group include the bounds of a page.
func (c *chunk) widen(of bounds) {
	if of.least.IsNull() {
		return
	}
	all := &c.encoded.bounds
	if all.least.IsNull() || c.compare(of.least, all.least) < 0 {
		all.least = of.least
	}
	if all.most.IsNull() || c.compare(of.most, all.most) > 0 {
		all.most = of.most
	}
}

// encodeDictionary encodes the page with the texts.
func (c *chunk) encodeDictionary() (encoded []byte, plain int, err error) {
	s := &c.encoded.space
	s.plain = s.plain[:0]
	for _, word := range c.words.list {
		s.plain = binary.LittleEndian.AppendUint32(s.plain, uint32(len(word)))
		s.plain = append(s.plain, word...)
	}
	s.packed, err = codec.Encode(s.packed[:0], s.plain)
	if err != nil {
		return nil, 0, fmt.Errorf("encode a dictionary: %w", err)
	}
	h := format.PageHeader{
		Type: format.DictionaryPage, UncompressedPageSize: int32(len(s.plain)), CompressedPageSize: int32(len(s.packed)), CRC: int32(crcOf(s.packed)),
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(len(c.words.list)), Encoding: format.Plain}),
	}
	encoded, err = appendPage(nil, &h, s.packed)
	return encoded, len(encoded) - len(s.packed) + len(s.plain), err
}

// statistics are the statistics of the row group.
func (c *chunk) statistics() format.Statistics {
	s := format.Statistics{NullCount: c.encoded.nulls}
	if b := &c.encoded.bounds; !b.least.IsNull() {
		s.MinValue, s.MaxValue = bytes.Clone(b.least.Bytes()), bytes.Clone(b.most.Bytes())
	}
	return s
}
