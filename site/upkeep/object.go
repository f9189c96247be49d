package upkeep

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/site"
)

// errUnread means that the bytes of an object could not be read to their end. That need not be damage: the
// connection to the object store can be lost.
var errUnread = errors.New("it could not be read")

// retryPause is the time between two attempts to read an object.
const retryPause = time.Second

// object returns what is wrong with an object; empty for nothing. The error is errUnread if the object could
// not be read several times.
func (c *check) object(ctx context.Context, run site.StoredRun, o site.Object) (problem string, err error) {
	for try := 1; ; try++ {
		problem, err = c.try(ctx, run, o)
		isLast := !errors.Is(err, errUnread) || try == readTries
		if isLast {
			return problem, err
		}
		if !recovery.Pause(ctx, retryPause) {
			return "", context.Cause(ctx)
		}
	}
}

// try reads an object once.
func (c *check) try(ctx context.Context, run site.StoredRun, o site.Object) (problem string, err error) {
	f, err := c.Registry.Objects.Open(ctx, c.Verifier.Objects, o)
	if errors.Is(err, site.ErrNotFound) {
		return "it is missing", nil
	}
	if errors.Is(err, site.ErrDamaged) {
		return "it cannot be read: " + err.Error(), nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnread, err)
	}
	defer f.Close()
	in := newSummed(f)
	switch o.Class {
	case site.ClassRecord:
		problem = c.record(in, run)
	case site.ClassCSV, site.ClassInline:
		problem = csv(in, o)
	default:
		problem = fmt.Sprintf("it has the unknown class %q", o.Class)
	}
	_, err = io.Copy(io.Discard, in) // the rest
	if in.err == nil {
		in.err = err
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case in.err != nil:
		return "", fmt.Errorf("%w: %w", errUnread, in.err)
	case in.bytes != o.Bytes:
		return fmt.Sprintf("it has %d bytes, not %d", in.bytes, o.Bytes), nil
	case in.sum() != o.SHA256:
		return "its bytes are not those that were stored: the SHA-256 differs", nil
	}
	return problem, nil
}

// record checks the complete record of a run.
func (c *check) record(r io.Reader, run site.StoredRun) string {
	got, err := c.RunOf(r)
	switch {
	case err != nil:
		return "it cannot be decoded: " + err.Error()
	case run.Record == nil:
		return "the registry has nothing of what it says about the run"
	case !sameRun(&got, run.Record):
		return "it is of another run than the registry says"
	}
	return ""
}

// sameRun compares two runs as the registry stores them.
func sameRun(a, b *rt.Run) bool {
	var text [2][]byte
	for i, run := range []*rt.Run{a, b} {
		var once rt.Run // as JSON stores it: invalid UTF-8 does not come back
		first, err := json.Marshal(run)
		if err != nil || json.Unmarshal(first, &once) != nil {
			return false
		}
		text[i], err = json.Marshal(&once)
		if err != nil {
			return false
		}
	}
	return bytes.Equal(text[0], text[1])
}

// csv checks a gzip-compressed CSV.
func csv(r io.Reader, o site.Object) string {
	gz, err := gzip.NewReader(bufio.NewReader(r))
	if err != nil {
		return "it is not compressed with gzip: " + err.Error()
	}
	defer gz.Close()
	var got site.CSV
	_, err = io.Copy(&got, io.LimitReader(gz, o.Text+1))
	switch {
	case err != nil:
		return "it cannot be decompressed: " + err.Error()
	case got.Rows != o.Rows:
		return fmt.Sprintf("it has %d rows, not %d", got.Rows, o.Rows)
	case got.Text != o.Text || got.Header != o.Header:
		return fmt.Sprintf("its text has %d bytes with a header of %d, not %d with %d", got.Text, got.Header, o.Text, o.Header)
	}
	return ""
}

// summed counts and sums the bytes that are read, and keeps the error of the reader.
type summed struct {
	r     io.Reader
	bytes int64
	hash  hash.Hash
	err   error
}

func newSummed(r io.Reader) *summed { return &summed{r: r, hash: sha256.New()} }

func (s *summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.bytes += int64(n)
	_, _ = s.hash.Write(p[:n]) // never fails
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (s *summed) sum() string { return hex.EncodeToString(s.hash.Sum(nil)) }
