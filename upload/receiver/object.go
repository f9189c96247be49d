package receiver

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// serveObject answers a path-style S3 request. It supports PUT only.
func (rc *Receiver) serveObject(w http.ResponseWriter, r *http.Request) {
	err := rc.put(w, r)
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	p := problemOf(err)
	p.header(w.Header())
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(p.status)
	type answer struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	_ = xml.NewEncoder(w).Encode(answer{Code: cmp.Or(p.code, "OperationAborted"), Message: p.detail}) // the client has closed the connection
}

// invalid is an error of a PUT with S3's code for it.
func invalid(status int, code, detail string) error {
	return &problem{status: status, code: code, detail: detail}
}

func (rc *Receiver) put(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPut {
		return invalid(405, "MethodNotAllowed", "only PUT is supported")
	}
	cred, payload, err := rc.verify(r, time.Now())
	if err != nil {
		return err
	}
	leave, err := take(r.Context(), rc.limits.open, cred.owner, 1)
	if err != nil {
		return err
	}
	defer leave()
	name, ok := rc.objectName(cred.runID, strings.TrimPrefix(r.URL.Path, "/"+rc.conf.Bucket+"/"))
	switch {
	case !ok:
		return invalid(403, "AccessDenied", "the credentials are for keys below "+rc.conf.Prefix+"/"+cred.runID+"/")
	case r.URL.RawQuery != "":
		return invalid(501, "NotImplemented", "sub-resources are not supported")
	case r.ContentLength < 0:
		return invalid(411, "MissingContentLength", "Content-Length is missing")
	case !rc.store.exists(cred.runID):
		return invalid(404, "NoSuchKey", "there is no such run")
	}
	sum := sha256.New()
	b, err := rc.arrive(w, r, cred.owner, rc.conf.MaxObject, sum)
	if errors.As(err, new(*http.MaxBytesError)) { // 400 is S3's status for it
		return invalid(400, "EntityTooLarge", tooLong(rc.conf.MaxObject))
	}
	if err != nil {
		return bodyError(err, rc.conf.MaxObject)
	}
	defer b.done()
	if hex.EncodeToString(sum.Sum(nil)) != payload {
		return invalid(400, "XAmzContentSHA256Mismatch", "the body is not the one that was signed")
	}
	done, err := take(r.Context(), rc.limits.work, cred.owner, b.work())
	if err != nil {
		return err
	}
	defer done()
	return rc.keep(turn{r.Context(), cred.owner, rc.limits.cpu}, b, cred.runID, name)
}

func tooLong(limit int64) string {
	return fmt.Sprintf("the body is too long: it may have %d bytes", limit)
}

// keep checks an upload and stores it under its name. The objects of a finished run never
// change.
func (rc *Receiver) keep(t turn, b *body, runID, name string) error {
	o, err := inspect(t, b, inflatedLimit(b.size, maxInflated), io.Discard)
	if err == nil && !o.whole {
		err = errNoCSV
	}
	if errors.Is(err, errNoGzip) || errors.Is(err, errNoCSV) {
		return invalid(400, "InvalidRequest", err.Error())
	}
	if err != nil {
		return err
	}
	defer rc.store.lock(runID)()
	r, err := rc.store.load(runID)
	if err != nil {
		return err
	}
	path := rc.objectPath(runID, name)
	if r.Finish != nil {
		if old, err := rc.store.object(t, path); err == nil && old.SHA256 == o.SHA256 {
			return rc.store.writable()
		}
		return refuse(http.StatusConflict, "the run is finished")
	}
	_, err = os.Stat(path)
	isNew := errors.Is(err, fs.ErrNotExist)
	if isNew && rc.store.objectCount(runID) >= maxObjects {
		return refuse(http.StatusRequestEntityTooLarge, "a run may have %d objects", maxObjects)
	}
	if err := rc.store.keepBody(r, b, runFile(runID, "objects", name)); err != nil {
		return err
	}
	o.Key = rc.key(runID, name)
	rc.store.cache(path, o)
	if isNew {
		rc.store.objectAdded(runID)
	}
	return nil
}

// objectName is the file name of a key below the run's prefix.
func (rc *Receiver) objectName(runID, key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, rc.conf.Prefix+"/"+runID+"/")
	name := url.PathEscape(rest)
	if !ok || rest == "" || len(name) > 250 || strings.Trim(rest, ".") == "" {
		return "", false
	}
	return name, true
}

func (rc *Receiver) key(runID, name string) string {
	rest, err := url.PathUnescape(name)
	if err != nil {
		rest = name
	}
	return rc.conf.Prefix + "/" + runID + "/" + rest
}

// objectOf is the file name of a URI of the run.
func (rc *Receiver) objectOf(runID, uri string) (string, bool) {
	return rc.objectName(runID, strings.TrimPrefix(uri, "s3://"+rc.conf.Bucket+"/"))
}

func (rc *Receiver) objectPath(runID, name string) string {
	return filepath.Join(rc.store.runDir(runID), "objects", name)
}

// objects lists a run's uploads by key. Of a finished run it lists only the uploads that the
// finish names: the others are from an abandoned attempt.
func (rc *Receiver) objects(t turn, r run) ([]object, error) {
	var names []string
	if r.Finish != nil {
		for _, uri := range r.Finish.DataURIs {
			name, _ := rc.objectOf(r.ID, uri)
			names = append(names, name)
		}
	} else {
		entries, err := os.ReadDir(filepath.Join(rc.store.runDir(r.ID), "objects"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // the first upload makes it
			return nil, err
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	list := make([]object, 0, len(names))
	for _, name := range names {
		o, err := rc.store.object(t, rc.objectPath(r.ID, name))
		if err != nil {
			return nil, err
		}
		o.Key = rc.key(r.ID, name)
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b object) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// maxKnown is the maximum number of objects in the cache, which then takes about 20 MiB.
const maxKnown = 1 << 16

// objectCount is the number of a run's objects. The caller has locked the run.
func (s *store) objectCount(runID string) int {
	s.mu.Lock()
	n, ok := s.named[runID]
	s.mu.Unlock()
	if ok {
		return n
	}
	entries, _ := os.ReadDir(filepath.Join(s.runDir(runID), "objects"))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.named) >= maxKnown {
		clear(s.named)
	}
	s.named[runID] = len(entries)
	return len(entries)
}

// objectAdded counts a new object of a run if its objects are counted.
func (s *store) objectAdded(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.named[runID]; ok {
		s.named[runID]++
	}
}

func (s *store) cache(path string, o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known) // it only speeds up the views of runs
	}
	s.known[path] = o
}

// object inspects an upload, unless it is in the cache.
func (s *store) object(t turn, path string) (object, error) {
	s.mu.Lock()
	o, ok := s.known[path]
	s.mu.Unlock()
	if ok {
		return o, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return o, err
	}
	defer f.Close()
	o, err = inspect(t, f, maxInflated, io.Discard)
	if err != nil {
		return o, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	s.cache(path, o)
	return o, nil
}

// inflatedLimit returns the maximum decompressed size of an upload with this compressed size. gzip
// shrinks a CSV of samples to about a tenth. Data that shrinks to less than a hundredth is not that
// of a run, unless it is very short.
func inflatedLimit(packed, most int64) int64 { return min(most, 1<<20+100*packed) }

var (
	errNoGzip = errors.New("the data is not compressed with gzip, or incomplete")
	errNoCSV  = errors.New("the object is not CSV with a header, in which every line has an end")
)

// inspect reads a gzip-compressed CSV to its end, in steps of a turn, and refuses more text than
// limit. text receives the text.
func inspect(t turn, f io.Reader, limit int64, text io.Writer) (object, error) {
	sum, raw := sha256.New(), &counter{}
	gz, err := gzip.NewReader(bufio.NewReader(io.TeeReader(f, io.MultiWriter(sum, raw))))
	if err != nil {
		return object{}, fmt.Errorf("%w (%w)", errNoGzip, err)
	}
	defer gz.Close()
	o := object{}
	lines := int64(0)
	buf := make([]byte, workUnit)
	for err == nil {
		var n int
		if ended := t.do(func() {
			n, err = fill(gz, buf)
			_, _ = text.Write(buf[:n]) // a hash
		}); ended != nil {
			return object{}, ended
		}
		if lines == 0 {
			if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
				o.header = o.text + int64(i) + 1
			}
		}
		lines += int64(bytes.Count(buf[:n], []byte("\n")))
		o.text += int64(n)
		if n > 0 {
			o.whole = buf[n-1] == '\n'
		}
		if o.text > limit || lines > maxRows {
			return object{}, &problem{
				status: http.StatusRequestEntityTooLarge, code: "InflatedTooLarge",
				detail: fmt.Sprintf("the data is too large: decompressed, it may have %d bytes and %d rows", limit, maxRows),
			}
		}
	}
	if _, isDisk := errors.AsType[*fs.PathError](err); isDisk {
		return object{}, err
	}
	if !errors.Is(err, io.EOF) {
		return object{}, fmt.Errorf("%w (%w)", errNoGzip, err)
	}
	o.Bytes, o.SHA256, o.Rows = raw.n, hex.EncodeToString(sum.Sum(nil)), max(0, lines-1)
	return o, nil
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

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) { c.n += int64(len(b)); return len(b), nil }
