// Package archive writes and reads the complete records of runs as a file. spool.Dump and
// spool.Load make and read them, and this package compresses them with zstd. It is a package of its
// own because the tracker writes no record.
package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// window is how far back in a record a repetition may be, in bytes. It bounds the memory of both sides.
const window = 1 << 20

// encoder compresses the blocks of all records of the process, one at a time. It takes 6 MiB of
// memory, which each worker of a drain would take otherwise.
var encoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(window),
		zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
})

// Write writes the complete record of a run, from which Read makes a spool file with the same rows. A
// nil pointer means no option. Concurrent calls wait for each other only to compress a block.
func Write(ctx context.Context, w io.Writer, r *spool.Reader, opts *spool.DumpOptions) error {
	z, err := encoder()
	if err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Path(), err)
	}
	b := &blocks{w: w, z: z}
	if err := spool.Dump(ctx, b, r, opts); err != nil {
		return err // the file has no end
	}
	if err := b.flush(); err != nil {
		return fmt.Errorf("write the record of %s: %w", r.Path(), err)
	}
	return nil
}

// blocks compresses a record in blocks of the size of the window, each a frame of zstd.
type blocks struct {
	w             io.Writer
	z             *zstd.Encoder
	plain, packed []byte
}

func (b *blocks) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		part := p[:min(len(p), window-len(b.plain))]
		b.plain = append(b.plain, part...)
		p, n = p[len(part):], n+len(part)
		if len(b.plain) == window {
			err = b.flush()
		}
	}
	return n, err
}

func (b *blocks) flush() error {
	if len(b.plain) == 0 {
		return nil
	}
	b.packed = b.z.EncodeAll(b.plain, b.packed[:0])
	b.plain = b.plain[:0]
	_, err := b.w.Write(b.packed)
	return err
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
	z, isUsed := decoders.Get().(*zstd.Decoder)
	var err error
	if isUsed {
		err = z.Reset(from)
	} else {
		z, err = zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	}
	if err != nil {
		return err
	}
	defer release(z)
	return read(&content{z, from})
}

// decoders has decoders that are used again: one needs more memory than most records. They have no goroutines.
var decoders sync.Pool

// release makes a decoder free of its source.
func release(z *zstd.Decoder) {
	if z.Reset(nil) == nil {
		decoders.Put(z)
	}
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
