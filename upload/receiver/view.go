package receiver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/klauspost/compress/gzip"
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
	Objects    []object        `json:"objects,omitempty"`
	Rows       int64           `json:"rows,omitzero"`
}

func (rc *Receiver) view(t turn, id string) (view, error) {
	var r run
	var err error
	if ended := t.do(func() { r, err = rc.store.load(id) }); ended != nil {
		return view{}, ended
	}
	if err != nil {
		return view{}, err
	}
	v := view{ID: id, Status: "running", Created: r.Created, Finished: r.Finished, Metadata: r.Metadata}
	if r.Finish != nil {
		v.Status, v.ExitCode, v.DataSource = r.Finish.RunStatus, r.Finish.ExitCode, r.Finish.DataSource
	}
	v.Objects, err = rc.objects(t, r)
	if err != nil {
		return view{}, err
	}
	if v.DataSource == "inline" {
		inline, err := rc.store.object(t, rc.inlinePath(id))
		v.Rows = inline.Rows
		return v, err
	}
	for _, o := range v.Objects {
		v.Rows += o.Rows
	}
	return v, nil
}

// head returns the view as JSON without the objects and the rows, and without its last brace.
func (v view) head(t turn) (head []byte, err error) {
	v.Objects, v.Rows = nil, 0
	if ended := t.do(func() { head, err = marshal(v) }); ended != nil {
		return nil, ended
	}
	if err != nil {
		return nil, errors.New("its metadata is damaged")
	}
	return head[:len(head)-1], nil
}

// write writes the view as JSON, object by object: a run can have many.
func (v view) write(w io.Writer, head []byte) error {
	if _, err := fmt.Fprintf(w, `%s,"objects":[`, head); err != nil {
		return err
	}
	for i, o := range v.Objects {
		b, err := marshal(o)
		if err != nil {
			return err
		}
		if i > 0 {
			b = append([]byte{','}, b...)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, `],"rows":%d}`, v.Rows)
	return err
}

// inlineName is the file with the data of an inline finish.
const inlineName = "inline.csv.gz"

func (rc *Receiver) inlinePath(id string) string {
	return filepath.Join(rc.store.runDir(id), inlineName)
}

// The default and the maximum number of runs in one answer to GET /runs.
const (
	pageRuns    = 1000
	maxPageRuns = 10_000
)

// list answers GET /runs with an array of the runs after the id ?after=, the oldest first, at most
// ?limit= of them. If there are more, the header Link has the next URL. The array is written run by
// run. A damaged run is listed with its error.
func (rc *Receiver) list(w http.ResponseWriter, r *http.Request, t turn) error {
	q := r.URL.Query()
	limit := pageRuns
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPageRuns {
			return refuse(http.StatusBadRequest, "limit must be a number from 1 to %d", maxPageRuns)
		}
		limit = n
	}
	var ids []string
	var more bool
	var err error
	if ended := t.do(func() { ids, more, err = rc.store.ids(q.Get("after"), limit) }); ended != nil {
		return ended
	}
	if err != nil {
		return err
	}
	if more {
		next := url.Values{"after": {ids[len(ids)-1]}, "limit": {strconv.Itoa(limit)}}
		w.Header().Set("Link", "</runs?"+next.Encode()+`>; rel="next"`)
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 32<<10)
	fmt.Fprint(out, "[")
	for i, id := range ids {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprint(out, "\n")
		if rc.item(out, t, id) != nil {
			return nil // the client has closed the connection
		}
	}
	fmt.Fprint(out, "]\n")
	_ = out.Flush() // the client has closed the connection
	return nil
}

// item writes a run of the list.
func (rc *Receiver) item(out *bufio.Writer, t turn, id string) error {
	v, err := rc.view(t, id)
	var head []byte
	if err == nil {
		head, err = v.head(t)
	}
	if err == nil {
		return v.write(out, head)
	}
	if ended := t.ctx.Err(); ended != nil {
		return ended
	}
	b, _ := json.Marshal(map[string]string{"id": id, "error": storeFault(err)}) // strings can be marshalled
	_, err = out.Write(b)
	return err
}

// show answers GET /runs/{id}.
func (rc *Receiver) show(w http.ResponseWriter, t turn, id string) error {
	v, err := rc.view(t, id)
	if err != nil {
		return err
	}
	head, err := v.head(t)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriterSize(w, 32<<10)
	_ = v.write(out, head) // the client has closed the connection
	_, _ = out.WriteString("\n")
	_ = out.Flush() // the client has closed the connection
	return nil
}

// data answers GET /runs/{id}/data: the CSV of all objects, with one header, or the inline
// data of the finish. The answer has a Content-Length, so that the client detects an incomplete
// one.
func (rc *Receiver) data(w http.ResponseWriter, t turn, id string) error {
	v, err := rc.view(t, id)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv")
	if v.DataSource == "inline" {
		inline, err := rc.store.object(t, rc.inlinePath(id))
		if err != nil {
			return err
		}
		w.Header().Set("Content-Length", strconv.FormatInt(inline.text, 10))
		_ = copyCSV(w, t, rc.inlinePath(id), true) // the client sees that the answer is too short
		return nil
	}
	var length int64
	for i, o := range v.Objects {
		length += o.text
		if i > 0 {
			length -= o.header
		}
	}
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	for i, o := range v.Objects {
		name, ok := rc.objectName(id, o.Key)
		if !ok || copyCSV(w, t, rc.objectPath(id, name), i == 0) != nil {
			return nil // the client sees that the answer is too short
		}
	}
	return nil
}

// copyCSV writes an object's lines, the first one only with header. It decompresses in steps of
// a turn.
func copyCSV(w io.Writer, t turn, path string, header bool) error {
	f, err := os.Open(path)
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
		if ended := t.do(func() { n, err = fill(gz, buf) }); ended != nil {
			return ended
		}
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
