// Package archive writes and reads the complete records of runs as a file. spool.Dump and
// spool.Load make and read them, and this package compresses them with zstd. It is a package of its
// own because the tracker writes no record.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// window is how far back in a record a repetition may be, in bytes. It bounds the memory of both sides.
const window = 1 << 20

// Write writes the complete record of a run, from which Read makes a spool file with the same rows. A
// nil pointer means no option.
func Write(ctx context.Context, w io.Writer, r *spool.Reader, opts *spool.DumpOptions) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Path(), err)
	}
	if err := spool.Dump(ctx, z, r, opts); err != nil {
		return err // the file has no end
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Path(), err)
	}
	return nil
}

// Read makes the spool file of a run in dir from a record that Write wrote, and returns its path. The
// record can be from any source; spool.Load describes the bounds and the errors.
func Read(dir string, limits *spool.ImportLimits, r io.Reader) (path string, err error) {
	err = decompress(r, func(r io.Reader) error {
		path, err = spool.Load(dir, limits, r)
		return err
	})
	return path, err
}

// Check reads a record to its end, and returns its run; spool.CheckRecord describes what it checks. A record that
// inflates to more than maxInflated allows is spool.ErrRecord.
func Check(r io.Reader) (run rt.Run, err error) {
	err = decompress(r, func(r io.Reader) error {
		run, _, err = spool.CheckRecord(&bounded{content: r.(*content)})
		return err
	})
	return run, err
}

// maxInflated is how long a record may be, in bytes, whose compressed form has so many. The columns of an idle week,
// which compress best, have 40 MiB.
func maxInflated(packed int64) int64 { return 64<<20 + 100*packed }

// bounded is a record that may inflate to maxInflated.
type bounded struct {
	*content
	size int64
}

func (b *bounded) Read(p []byte) (n int, err error) {
	n, err = b.content.Read(p)
	b.size += int64(n)
	if limit := maxInflated(b.from.size); b.size > limit {
		return n, fmt.Errorf("%w: it inflates from %d to more than %d bytes", spool.ErrRecord, b.from.size, limit)
	}
	return n, err
}

func decompress(r io.Reader, read func(io.Reader) error) error {
	from := &source{r: r}
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		return err
	}
	defer z.Close()
	return read(&content{z, from})
}

// source keeps the error of a reader.
type source struct {
	r    io.Reader
	size int64 // that was read
	err  error
}

func (s *source) Read(p []byte) (n int, err error) {
	n, err = s.r.Read(p)
	s.size += int64(n)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// content is the decompressed record. An error comes from the source, or means that the record is
// damaged.
type content struct {
	z    *zstd.Decoder
	from *source
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.z.Read(p)
	switch {
	case err == nil:
		return n, nil
	case c.from.err != nil:
		return n, c.from.err
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return n, err
	case errors.Is(err, zstd.ErrMagicMismatch):
		return n, fmt.Errorf("%w: it is not a file that rt-spool export --format record wrote", spool.ErrRecord)
	}
	return n, fmt.Errorf("%w: %v", spool.ErrRecord, err) // an EOF in err is not the end of the file
}
