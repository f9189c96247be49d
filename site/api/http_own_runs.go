package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// view is a run in the answer to GET.
type view struct {
	ID         string          `json:"id"`
	Status     string          `json:"status"` // "running", "finished" or "failed"
	Created    time.Time       `json:"created"`
	Finished   time.Time       `json:"finished,omitzero"`
	ExitCode   *int64          `json:"exit_code"`
	DataSource string          `json:"data_source,omitempty"`
	Metadata   json.RawMessage `json:"metadata"`
	Summary    json.RawMessage `json:"summary,omitempty"`
	Record     *object         `json:"record,omitempty"`  // the newest complete record
	Expired    []site.Class    `json:"expired,omitempty"` // whose objects were removed because of their age
	Objects    []object        `json:"objects"`
	Rows       rt.Opt[int64]   `json:"rows"` // null if some were removed because of their age

	data []site.Object // what Rows counts: the uploads, or inline data
}

// object is an object in the answer to GET.
type object struct {
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Rows   int64  `json:"rows"` // without the header
}

// ownRuns shows the stored runs.
type ownRuns struct {
	conf     *Config
	names    keyNames
	problems problems
}

// view returns a run with its uploads by key. Of a finished run it has only the uploads that the finish
// names: the others are from an abandoned attempt.
func (s *ownRuns) view(ctx context.Context, id string) (view, error) {
	r, err := s.conf.Registry.Runs.Get(ctx, id)
	if err != nil {
		return view{}, err
	}
	all, err := s.conf.Registry.Objects.OfRun(ctx, id)
	if err != nil {
		return view{}, err
	}
	v := view{ID: id, Status: "running", Created: r.Created, Finished: r.Finished, Metadata: r.Metadata, Expired: r.Expired, Objects: []object{}}
	named := map[string]bool{}
	if f := r.Finish; f != nil {
		v.Status, v.ExitCode, v.DataSource, v.Summary = f.RunStatus, f.ExitCode, f.DataSource, f.Summary
		for _, name := range f.Keys {
			named[name] = true
		}
	}
	rows := int64(0)
	for _, o := range all {
		shown := object{Key: s.names.key(id, o.Name), Bytes: o.Bytes, SHA256: o.SHA256, Rows: o.Rows}
		isData := r.Finish == nil || named[o.Name]
		switch {
		case o.Class == site.ClassRecord:
			v.Record = &shown
			continue
		case o.Class == site.ClassCSV && isData:
			v.Objects = append(v.Objects, shown)
		case o.Class == site.ClassInline && v.DataSource == sourceInline:
		default:
			continue
		}
		v.data = append(v.data, o)
		rows += o.Rows
	}
	if !v.rowsExpired() {
		v.Rows.Set(rows)
	}
	return v, nil
}

// rowsExpired reports whether rows were removed because of their age: then their number is not known.
func (v *view) rowsExpired() bool {
	return slices.Contains(v.Expired, site.ClassCSV) || slices.Contains(v.Expired, site.ClassInline)
}

// encode returns the view as JSON.
func (v view) encode(t turn) ([]byte, error) {
	text, err := t.encode(v)
	if err != nil && t.ctx.Err() == nil {
		err = errors.New("its metadata is damaged")
	}
	return text, err
}

// The default and the maximum number of runs in one answer to GET /runs.
const (
	pageRuns    = 1000
	maxPageRuns = 10_000
)

// startOfRun matches what ids begin with.
var startOfRun = regexp.MustCompile(`^[0-9a-z-]{0,64}$`)

// list answers GET /runs with an array of the runs of the owner after the id ?after=, the oldest first, at most
// ?limit= of them. If there are more, the header Link has the next URL. The array is written run by
// run. A run that cannot be read is listed with an error.
func (s *ownRuns) list(w http.ResponseWriter, r *http.Request, t turn) error {
	q := r.URL.Query()
	limit := pageRuns
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPageRuns {
			return refuse(http.StatusBadRequest, "limit must be a number from 1 to %d", maxPageRuns)
		}
		limit = n
	}
	after := q.Get("after")
	if !startOfRun.MatchString(after) {
		return refuse(http.StatusBadRequest, "after must be the id of a run")
	}
	ids, err := s.conf.Registry.Runs.OwnIDs(t.ctx, t.client, after, limit+1)
	if err != nil {
		return err
	}
	if len(ids) > limit {
		ids = ids[:limit]
		next := url.Values{"after": {ids[limit-1]}, "limit": {strconv.Itoa(limit)}}
		w.Header().Set("Link", "</runs?"+next.Encode()+`>; rel="next"`)
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 32<<10)
	separator := "[\n"
	for _, id := range ids {
		v, err := s.view(t.ctx, id)
		if errors.Is(err, site.ErrNotFound) {
			continue // Retain has removed it
		}
		_, _ = out.WriteString(separator) // a later write has the same error
		separator = ",\n"
		if s.item(out, t, id, v, err) != nil {
			return nil // the client has closed the connection
		}
	}
	if separator == "[\n" {
		_, _ = out.WriteString("[")
	}
	_, _ = out.WriteString("]\n")
	_ = out.Flush() // the client has closed the connection
	return nil
}

// item writes a run of the list, or the error that occurred when it was read.
func (s *ownRuns) item(out *bufio.Writer, t turn, id string, v view, err error) error {
	var text []byte
	if err == nil {
		text, err = v.encode(t)
	}
	if err != nil {
		if failed := t.ctx.Err(); failed != nil {
			return failed
		}
		text, _ = json.Marshal(map[string]string{"id": id, "error": s.problems.problemOf(err).detail}) // strings can be marshalled
	}
	_, err = out.Write(text)
	return err
}

// show answers GET /runs/{id}.
func (s *ownRuns) show(w http.ResponseWriter, t turn, id string) error {
	v, err := s.view(t.ctx, id)
	if err != nil {
		return err
	}
	text, err := v.encode(t)
	if err != nil {
		return err
	}
	replyText(w, text)
	return nil
}

// data answers GET /runs/{id}/data: the CSV of all objects, with one header, or the inline
// data of the finish. The answer has a Content-Length, so that the client detects an incomplete
// one.
func (s *ownRuns) data(w http.ResponseWriter, t turn, id string) error {
	v, err := s.view(t.ctx, id)
	if err != nil {
		return err
	}
	if v.rowsExpired() {
		return refuse(http.StatusGone, "the rows of this run were removed because of their age (serve.retain_csv)")
	}
	var length int64
	for i, o := range v.data {
		length += o.Text
		if i > 0 {
			length -= o.Header
		}
	}
	w.Header().Set("Content-Type", "text/csv")
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	for i, o := range v.data {
		if err := s.copyCSV(w, t, o, i == 0); err != nil {
			s.problems.problemOf(err) // reports it
			return nil                // the client sees that the answer is too short
		}
	}
	return nil
}

// copyCSV writes an object's lines, the first one only with header. It decompresses in steps of
// a turn.
func (s *ownRuns) copyCSV(w io.Writer, t turn, o site.Object, header bool) error {
	f, err := s.conf.Registry.Objects.Open(t.ctx, s.conf.Objects, o)
	if err != nil {
		return err
	}
	defer f.Close()
	gz, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return err
	}
	defer gz.Close()
	buf := make([]byte, workUnit)
	for err == nil {
		var n int
		err = t.do(func() (err error) {
			n, err = fill(gz, buf)
			return err
		})
		text := buf[:n]
		if !header {
			at := bytes.IndexByte(text, '\n')
			header = at >= 0
			text = text[at+1:]
			if !header {
				text = nil
			}
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
