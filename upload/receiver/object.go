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
	p, known := errors.AsType[*problem](err)
	switch {
	case known:
	case errors.As(err, new(*http.MaxBytesError)):
		p = &problem{400, "EntityTooLarge", fmt.Sprintf("an object may have %d bytes", rc.conf.MaxObject)}
	default:
		p = &problem{500, "InternalError", storeFault(err)}
	}
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(p.status)
	type answer struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	_ = xml.NewEncoder(w).Encode(answer{Code: cmp.Or(p.code, "OperationAborted"), Message: p.detail}) // the client has closed the connection
}

func (rc *Receiver) put(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPut {
		return &problem{405, "MethodNotAllowed", "only PUT is supported"}
	}
	cred, payload, err := rc.verify(r, time.Now())
	if err != nil {
		return err
	}
	name, ok := rc.objectName(cred.runID, strings.TrimPrefix(r.URL.Path, "/"+rc.conf.Bucket+"/"))
	switch {
	case !ok:
		return &problem{403, "AccessDenied", "the credentials are for keys below " + rc.conf.Prefix + "/" + cred.runID + "/"}
	case r.URL.RawQuery != "":
		return &problem{501, "NotImplemented", "sub-resources are not supported"}
	case r.ContentLength < 0:
		return &problem{411, "MissingContentLength", "Content-Length is missing"}
	case r.ContentLength > rc.conf.MaxObject:
		return &http.MaxBytesError{Limit: rc.conf.MaxObject}
	case !rc.store.exists(cred.runID):
		return &problem{404, "NoSuchKey", "there is no such run"}
	}
	sum := sha256.New()
	body, err := rc.store.receive(io.TeeReader(http.MaxBytesReader(w, r.Body, rc.conf.MaxObject), sum), r.ContentLength)
	if err != nil {
		return bodyError(err)
	}
	defer body.discard()
	if hex.EncodeToString(sum.Sum(nil)) != payload {
		return &problem{400, "XAmzContentSHA256Mismatch", "the body is not the one that was signed"}
	}
	return rc.keep(body, cred.runID, name)
}

// bodyError distinguishes an incomplete body from an error of the disk.
func bodyError(err error) error {
	if errors.As(err, new(*fs.PathError)) || errors.As(err, new(*http.MaxBytesError)) {
		return err
	}
	return &problem{400, "IncompleteBody", "the body is incomplete"}
}

// keep checks an upload and gives it its name. The objects of a finished run do not change
// any more.
func (rc *Receiver) keep(b body, runID, name string) error {
	o, err := inspect(b)
	if err != nil {
		return &problem{400, "InvalidRequest", err.Error()}
	}
	defer rc.store.lock(runID)()
	r, err := rc.store.load(runID)
	if err != nil {
		return err
	}
	path := rc.objectPath(runID, name)
	if r.Finish != nil {
		if old, err := rc.store.object(path); err == nil && old.SHA256 == o.SHA256 {
			return rc.store.journal.sound()
		}
		return refuse(http.StatusConflict, "the run is finished")
	}
	if err := b.keep(runFile(runID, "objects", name)); err != nil {
		return err
	}
	o.Key = rc.key(runID, name)
	rc.store.cache(path, o)
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

func (rc *Receiver) objectPath(runID, name string) string {
	return filepath.Join(rc.store.runDir(runID), "objects", name)
}

// objects lists a run's uploads by key.
func (rc *Receiver) objects(runID string) ([]object, error) {
	entries, err := os.ReadDir(filepath.Join(rc.store.runDir(runID), "objects"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the first upload makes it
		return nil, err
	}
	list := make([]object, 0, len(entries))
	for _, e := range entries {
		o, err := rc.store.object(rc.objectPath(runID, e.Name()))
		if err != nil {
			return nil, err
		}
		o.Key = rc.key(runID, e.Name())
		list = append(list, o)
	}
	slices.SortFunc(list, func(a, b object) int { return strings.Compare(a.Key, b.Key) })
	return list, nil
}

// maxKnown limits the cache of objects; some 20 MiB.
const maxKnown = 1 << 16

func (s *store) cache(path string, o object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known) // it only speeds up the views of runs
	}
	s.known[path] = o
}

// object inspects an upload, unless it is in the cache.
func (s *store) object(path string) (object, error) {
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
	o, err = inspect(f)
	if err != nil {
		return o, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	s.cache(path, o)
	return o, nil
}

// inspect reads a gzip-compressed CSV to its end.
func inspect(f io.Reader) (object, error) {
	sum, raw := sha256.New(), &counter{}
	packed := bufio.NewReader(io.TeeReader(f, io.MultiWriter(sum, raw)))
	gz, err := gzip.NewReader(packed)
	if err != nil {
		return object{}, errors.New("the object is not compressed with gzip")
	}
	defer gz.Close()
	lines, text, header, last := int64(0), int64(0), int64(0), byte(0)
	buf := make([]byte, 64<<10)
	for {
		n, err := gz.Read(buf)
		if lines == 0 {
			if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
				header = text + int64(i) + 1
			}
		}
		lines += int64(bytes.Count(buf[:n], []byte("\n")))
		text += int64(n)
		if n > 0 {
			last = buf[n-1]
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || text > maxInflated {
			return object{}, errors.New("the object is incomplete gzip, or too large")
		}
	}
	if last != '\n' {
		return object{}, errors.New("the object is not CSV with a header, in which every line has an end")
	}
	return object{
		Bytes: raw.n, SHA256: hex.EncodeToString(sum.Sum(nil)), Rows: lines - 1,
		text: text, header: header,
	}, nil
}

type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) { c.n += int64(len(b)); return len(b), nil }
