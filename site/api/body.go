package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"time"
)

// After slowStart a body must arrive, and an answer be read, at an average of at least minRate
// bytes per second. A body above mediumBody must arrive at minLargeRate.
const (
	slowStart    = 10 * time.Second
	minRate      = 16 << 10
	minLargeRate = 128 << 10
)

// writeTimeout is how long a short answer may take after the body of its request.
const writeTimeout = time.Minute

// rateDeadline returns the time by which the next bytes must be received or sent, after a number
// of bytes at a rate.
func rateDeadline(begin time.Time, bytes, rate int64) time.Time {
	return begin.Add(slowStart + time.Duration(bytes)*(time.Second/time.Duration(rate)))
}

// body is the body of a request that has arrived. A small one is in memory, a larger one in a
// temporary file without a name, with reserved space.
type body struct {
	io.ReadSeeker
	size    int64
	small   []byte // nil for a larger one
	file    *os.File
	release []func()
}

// done removes the temporary file and releases what was reserved.
func (b *body) done() {
	if b.file != nil {
		_ = b.file.Close() // nothing of it is needed
	}
	for _, release := range b.release {
		release()
	}
}

// content returns the whole body.
func (b *body) content() ([]byte, error) {
	if b.small != nil {
		return b.small, nil
	}
	content := make([]byte, b.size)
	_, err := b.file.ReadAt(content, 0)
	return content, err
}

// bodies takes the bodies of requests, within the limits.
type bodies struct {
	limits *limits
	temp   string // directory of temporary files
}

// arrive reads the body of a client's request, at most limit bytes, and also writes it to the
// writer to. Until then the request holds no units of work.
func (s bodies) arrive(w http.ResponseWriter, r *http.Request, client string, limit int64, to io.Writer) (_ *body, err error) {
	if wait := s.limits.bytes.early(client, time.Now()); wait > 0 {
		return nil, tooFast(wait, "bytes (serve.token_rate)")
	}
	length := r.ContentLength
	if length < 0 {
		length = limit
	}
	if length > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	b := &body{}
	defer func() {
		if err != nil {
			b.done()
		}
	}()
	conn := http.NewResponseController(w)
	body := &paced{Reader: http.MaxBytesReader(w, r.Body, limit), conn: conn, rate: minRate}
	if length > mediumBody {
		body.rate = minLargeRate
	}
	from := io.TeeReader(body, to)
	if length <= smallBody {
		b.small, err = io.ReadAll(from)
		b.ReadSeeker, b.size = bytes.NewReader(b.small), int64(len(b.small))
	} else {
		err = s.arriveInFile(r, client, from, length, b)
	}
	s.limits.bytes.count(client, b.size, time.Now())
	_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout)) // the deadline of the server began at the header
	if err == nil {                                         // else the server reads the rest of the body, and the deadline must end that
		_ = conn.SetReadDeadline(time.Time{})
	}
	return b, err
}

func (s bodies) arriveInFile(r *http.Request, client string, from io.Reader, length int64, b *body) error {
	space := s.limits.spool
	if length > mediumBody {
		space = s.limits.large
	}
	give, err := takeUnits(r.Context(), space, client, int(length>>10)+1)
	if err != nil {
		return err
	}
	b.release = append(b.release, give)
	b.file, err = newTemp(s.temp)
	if err != nil {
		return err
	}
	b.ReadSeeker = b.file
	b.size, err = io.Copy(b.file, from)
	if err != nil {
		return err
	}
	_, err = b.file.Seek(0, io.SeekStart)
	return err
}

// newTemp opens a temporary file that the kernel removes when it is closed, or when the process ends.
func newTemp(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "rt-site-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// bodyError distinguishes a body that is too long, incomplete or too slow from an error of the
// disk.
func bodyError(err error, limit int64) error {
	_, isProblem := errors.AsType[*problem](err)
	isDisk := errors.As(err, new(*fs.PathError))
	switch {
	case isProblem, isDisk:
		return err
	case errors.As(err, new(*http.MaxBytesError)):
		return &problem{status: http.StatusRequestEntityTooLarge, code: "EntityTooLarge", detail: tooLong(limit)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &problem{status: http.StatusRequestTimeout, code: "RequestTimeout", detail: "the body arrives too slowly"}
	}
	return &problem{status: http.StatusBadRequest, code: "IncompleteBody", detail: "the body is incomplete"}
}

// paced reads a body with the deadlines of the minimum rate.
type paced struct {
	io.Reader
	conn  *http.ResponseController
	rate  int64     // bytes per second
	begin time.Time // of the first Read: the time before is not the client's
	bytes int64
}

func (p *paced) Read(b []byte) (int, error) {
	if p.begin.IsZero() {
		p.begin = time.Now()
	}
	_ = p.conn.SetReadDeadline(rateDeadline(p.begin, p.bytes, p.rate)) // the connections of tests have no deadline
	n, err := p.Reader.Read(b)
	p.bytes += int64(n)
	return n, err
}

// pacedWriter writes an answer with the deadlines of the minimum rate. Only the time in Write counts,
// not the time in which the server makes the answer.
type pacedWriter struct {
	http.ResponseWriter
	spent time.Duration
	bytes int64
}

func (p *pacedWriter) Write(b []byte) (written int, err error) {
	conn := http.NewResponseController(p.ResponseWriter)
	for len(b) > 0 && err == nil {
		part := b[:min(len(b), workUnit)]
		b = b[len(part):]
		begin := time.Now()
		_ = conn.SetWriteDeadline(rateDeadline(begin.Add(-p.spent), p.bytes, minRate))
		var n int
		n, err = p.ResponseWriter.Write(part)
		p.spent += time.Since(begin)
		p.bytes += int64(n)
		written += n
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errClientGone, err)
	}
	return written, err
}

// Unwrap is for http.ResponseController.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// work is the number of requests that the body counts as.
func (b *body) work() int { return 1 + int(b.size/workUnit) }
