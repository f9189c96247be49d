package ftdc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strings"
	"unicode/utf8"
)

var (
	// ErrTime reports a datum that is older than the previous one, or more than a day newer.
	// Readers of the format take that for a damaged file and stop there.
	ErrTime = errors.New("its time is before that of the previous datum, or more than a day later")
	// ErrName reports the name of a metric without a dot: some readers of the format fail on it.
	ErrName = errors.New("the name of a metric needs a dot: <part>.<metric>")
	// ErrNoSchema reports values before the first schema.
	ErrNoSchema = errors.New("there is no schema yet: the first byte of a file is 0x01")
)

// SyntaxError has the place where a file is not FTDC any more.
type SyntaxError struct {
	Offset int64 // of the document that cannot be read, in bytes
	Err    error // what is wrong with it
}

// Error names the position and the cause.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("ftdc: the document at byte %d: %v", e.Offset, e.Err)
}

// Unwrap returns the cause: io.ErrUnexpectedEOF if the file is cut.
func (e *SyntaxError) Unwrap() error { return e.Err }

// Decoder reads the datums of one file in order. It reuses its memory: the schema and a buffer of
// 64 KiB.
type Decoder struct {
	// AnyTime accepts a datum that is older than the previous one or more than a day newer, as
	// after a step of the clock. Otherwise that is an error, because damage looks the same.
	AnyTime bool

	r        *bufio.Reader
	offset   int64  // of the next byte
	document int64  // offset of the current document
	bits     []byte // of the current datum
	rest     []byte // its time and values

	names   []string
	values  []float32
	schemas int
	last    int64
	err     error
}

// NewDecoder returns a Decoder that reads r from the first byte of a file.
func NewDecoder(r io.Reader) *Decoder { return &Decoder{r: bufio.NewReaderSize(r, 64<<10)} }

// Names returns the metrics of the newest datum, in order. They change only when Schemas changes.
func (d *Decoder) Names() []string { return d.names }

// Values returns the values of the newest datum, one for each name. They are valid until Next.
func (d *Decoder) Values() []float32 { return d.values }

// Schemas returns the number of schemas that were read.
func (d *Decoder) Schemas() int { return d.schemas }

// Offset returns the offset of the next document in bytes.
func (d *Decoder) Offset() int64 { return d.offset }

// Next reads the next datum and returns its time in nanoseconds since the epoch. The error is io.EOF at the end of a
// complete file, and a *SyntaxError if the file is cut or damaged. No datum follows. Any other error is from
// the reader.
func (d *Decoder) Next() (time int64, err error) {
	if d.err != nil {
		return 0, d.err
	}
	time, err = d.next()
	if err != nil {
		d.err = err
	}
	return time, err
}

func (d *Decoder) next() (int64, error) {
	for {
		d.document = d.offset
		start, err := d.r.Peek(1)
		if err == io.EOF {
			return 0, io.EOF
		}
		if err != nil {
			return 0, d.failed(err)
		}
		first := start[0]
		switch {
		case first&schemaByte != 0: // the other bits are not used
			err := d.readSchema()
			var syntax *SyntaxError
			isOther := d.schemas == 0 && first != schemaByte && errors.As(err, &syntax) // another kind of file
			if isOther {
				return 0, d.noSchema(first)
			}
			if err != nil {
				return 0, err
			}
		case d.schemas == 0:
			return 0, d.noSchema(first)
		default:
			return d.readMetrics()
		}
	}
}

// read fills p with the next bytes of the document.
func (d *Decoder) read(p []byte) error {
	n, err := io.ReadFull(d.r, p)
	d.offset += int64(n)
	if err != nil {
		return d.failed(err)
	}
	return nil
}

// failed returns the error for a document that cannot be read to its end.
func (d *Decoder) failed(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return d.syntax(fmt.Errorf("it is cut off at byte %d: %w", d.offset, io.ErrUnexpectedEOF))
	}
	return fmt.Errorf("ftdc: read the document at byte %d: %w", d.document, err)
}

func (d *Decoder) syntax(err error) error { return &SyntaxError{Offset: d.document, Err: err} }

func (d *Decoder) noSchema(first byte) error {
	return d.syntax(fmt.Errorf("it starts with 0x%02x, unlike any FTDC file: %w", first, ErrNoSchema))
}

func (d *Decoder) readSchema() error {
	_, _ = d.r.Discard(1) // Peek has read the byte that marks a schema
	d.offset++
	var text []byte
	var scan schemaScanner
	for isEnd := false; !isEnd; {
		b, err := d.r.ReadByte()
		if err != nil {
			return d.failed(err)
		}
		d.offset++
		text = append(text, b)
		isEnd = scan.isEnd(b)
	}
	names, err := parseSchema(bytes.TrimSuffix(text, []byte("\n")))
	if err != nil {
		return d.syntax(err)
	}
	d.names, d.values = names, make([]float32, len(names))
	d.bits, d.rest = make([]byte, bitBytes(len(names))), make([]byte, timeBytes+valueBytes*len(names))
	d.schemas++
	return nil
}

// schemaScanner finds the end of a schema: the first newline after its array, or the first byte that no schema has
// there. The array may contain white space. viam's writer prints null for an empty array.
type schemaScanner struct {
	inArray, inString, isEscaped, isOver bool
	word                                 int // bytes of null
}

// isEnd reports whether b is the last byte of the schema.
func (s *schemaScanner) isEnd(b byte) bool {
	switch {
	case s.isEscaped:
		s.isEscaped = false
	case s.inString:
		s.isEscaped, s.inString = b == '\\', b != '"'
		return b == '\n'
	case b == '\n':
		return s.isOver
	case b == ' ', b == '\t', b == '\r':
	case !s.inArray && !s.isOver && s.word < len(null) && b == null[s.word]:
		s.word++
		s.isOver = s.word == len(null)
	case !s.inArray:
		s.inArray = b == '['
		return !s.inArray || s.isOver
	case b == ']':
		s.inArray, s.isOver = false, true
	case b == '"':
		s.inString = true
	default:
		return b != ','
	}
	return false
}

const null = "null"

// parseSchema parses the text of a schema without its newline.
func parseSchema(line []byte) ([]string, error) {
	if bytes.HasSuffix(line, []byte("\r")) {
		return nil, errors.New("its schema ends in CR LF: the newline is a bare LF; the line ends of the file were translated")
	}
	if !utf8.Valid(line) {
		return nil, errors.New("its schema is not UTF-8")
	}
	var names []string
	if err := json.Unmarshal(line, &names); err != nil {
		return nil, fmt.Errorf("its schema is not a JSON array of strings: %w", err)
	}
	for _, n := range names {
		if !strings.Contains(n, ".") {
			return nil, fmt.Errorf("metric %.64q of its schema: %w", n, ErrName)
		}
	}
	return names, nil
}

// readMetrics reads the diff bits, the time and the values that differ.
func (d *Decoder) readMetrics() (int64, error) {
	if err := d.read(d.bits); err != nil {
		return 0, err
	}
	// The bits after the last metric are ignored, because the format does not define them.
	used := len(d.values) + 1
	d.bits[len(d.bits)-1] &= byte(1<<(used-8*(len(d.bits)-1)) - 1)
	differ := 0
	for _, b := range d.bits {
		differ += bits.OnesCount8(b)
	}
	rest := d.rest[:timeBytes+valueBytes*differ]
	if err := d.read(rest); err != nil {
		return 0, err
	}
	time := int64(binary.BigEndian.Uint64(rest))
	if outOfOrder(d.last, time) && !d.AnyTime {
		return 0, d.syntax(fmt.Errorf("%d ns after %d ns: %w", time, d.last, ErrTime))
	}
	rest = rest[timeBytes:]
	for i, b := range d.bits {
		for ; b != 0; b &= b - 1 {
			metric := i<<3 + bits.TrailingZeros8(b) - 1
			d.values[metric] = math.Float32frombits(binary.BigEndian.Uint32(rest))
			rest = rest[valueBytes:]
		}
	}
	d.last = time
	return time, nil
}
