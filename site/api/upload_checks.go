package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt/site"
)

// inflatedLimit returns the maximum decompressed size of an upload with this compressed size. gzip
// shrinks a CSV of samples to about a tenth. Data that shrinks to less than a hundredth is from no
// run, unless it is very short.
func inflatedLimit(packed, most int64) int64 { return min(most, 1<<20+100*packed) }

var (
	errNoGzip = errors.New("the data is not compressed with gzip, or incomplete")
	errNoCSV  = errors.New("the object is not CSV with a header, in which every line has an end")
)

// inspector is the memory of inspect, which is used again: it is larger than most bodies.
type inspector struct {
	packed *bufio.Reader
	gz     gzip.Reader
	text   [workUnit]byte
}

var inspectors = sync.Pool{New: func() any { return &inspector{packed: bufio.NewReader(nil)} }}

func (in *inspector) release() {
	in.packed.Reset(nil)
	inspectors.Put(in)
}

// inspect reads a gzip-compressed CSV to its end, in steps of a turn, and refuses more text than
// limit. text receives the text; Rows, Text and Header of the object are set. The error is errNoCSV if
// the text has no line, or its last line no end.
func inspect(t turn, f io.Reader, limit int64, text io.Writer, o *site.Object) error {
	in := inspectors.Get().(*inspector)
	defer in.release()
	in.packed.Reset(f)
	err := in.gz.Reset(in.packed)
	if err != nil {
		return fmt.Errorf("%w (%w)", errNoGzip, err)
	}
	var c site.CSV
	for err == nil {
		var n int
		failed := t.do(func() error {
			n, err = fill(&in.gz, in.text[:])
			_, _ = text.Write(in.text[:n]) // a hash
			c.Add(in.text[:n])
			return nil
		})
		if failed != nil {
			return failed
		}
		if c.Text > limit || c.Rows > maxRows {
			return &problem{
				status: http.StatusRequestEntityTooLarge, code: "InflatedTooLarge",
				detail: fmt.Sprintf("the data is too large: decompressed, it may have %d bytes and %d rows", limit, maxRows),
			}
		}
	}
	if _, isDisk := errors.AsType[*fs.PathError](err); isDisk {
		return err
	}
	if !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w (%w)", errNoGzip, err)
	}
	o.Rows, o.Text, o.Header = c.Rows, c.Text, c.Header
	if !c.Whole {
		return errNoCSV
	}
	return nil
}

// fill reads until buf is full. Unlike io.ReadFull it returns the reader's own error, which
// distinguishes the end of a gzip file from a truncated one.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var more int
		more, err = r.Read(buf[n:])
		n += more
	}
	return n, err
}
