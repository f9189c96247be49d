package receiver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	Objects    []object        `json:"objects"`
	Rows       int64           `json:"rows"`
}

func (rc *Receiver) view(id string) (view, error) {
	r, err := rc.store.load(id)
	if err != nil {
		return view{}, err
	}
	v := view{ID: id, Status: "running", Created: r.Created, Finished: r.Finished, Metadata: r.Metadata}
	if r.Finish != nil {
		v.Status, v.ExitCode, v.DataSource = r.Finish.RunStatus, r.Finish.ExitCode, r.Finish.DataSource
	}
	v.Objects, err = rc.objects(id)
	if err != nil {
		return view{}, err
	}
	if v.DataSource == "inline" {
		inline, err := os.ReadFile(rc.inlinePath(id))
		v.Rows = max(0, int64(bytes.Count(inline, []byte("\n")))-1)
		return v, err
	}
	for _, o := range v.Objects {
		v.Rows += o.Rows
	}
	return v, nil
}

func (rc *Receiver) inlinePath(id string) string {
	return filepath.Join(rc.store.runDir(id), "inline.csv")
}

// The number of runs in one answer to GET /runs: without a limit in the request, and at most.
const (
	pageRuns    = 1000
	maxPageRuns = 10_000
)

// list answers GET /runs with an array, the oldest run first: those after the id ?after=, at
// most ?limit= of them. Where there are more, the header Link has the next URL. It is written
// run by run. A damaged run is shown with its error.
func (rc *Receiver) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	limit := pageRuns
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPageRuns {
			return refuse(http.StatusBadRequest, "limit must be a number from 1 to %d", maxPageRuns)
		}
		limit = n
	}
	ids, more, err := rc.store.ids(q.Get("after"), limit)
	if err != nil {
		return err
	}
	if more {
		next := url.Values{"after": {ids[len(ids)-1]}, "limit": {strconv.Itoa(limit)}}
		w.Header().Set("Link", "</runs?"+next.Encode()+`>; rel="next"`)
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	defer out.Flush()
	fmt.Fprint(out, "[")
	for i, id := range ids {
		if i > 0 {
			fmt.Fprint(out, ",")
		}
		fmt.Fprintf(out, "\n%s", rc.item(id))
	}
	fmt.Fprint(out, "]\n")
	return nil
}

// item is a run in the list.
func (rc *Receiver) item(id string) []byte {
	v, err := rc.view(id)
	if err == nil {
		if b, err := json.Marshal(v); err == nil {
			return b
		}
		err = errors.New("its metadata is damaged")
	}
	b, _ := json.Marshal(map[string]string{"id": id, "error": storeFault(err)}) // strings can be marshalled
	return b
}

// show answers GET /runs/{id}.
func (rc *Receiver) show(w http.ResponseWriter, id string) error {
	v, err := rc.view(id)
	if err == nil {
		reply(w, http.StatusOK, v)
	}
	return err
}

// data answers GET /runs/{id}/data: the CSV of all objects, with one header, or the inline
// data of the finish: objects are then abandoned uploads of the same rows. The answer has a
// Content-Length, so that the client detects an incomplete one.
func (rc *Receiver) data(w http.ResponseWriter, id string) error {
	v, err := rc.view(id)
	if err != nil {
		return err
	}
	list := v.Objects
	w.Header().Set("Content-Type", "text/csv")
	if len(list) == 0 || v.DataSource == "inline" {
		inline, err := os.ReadFile(rc.inlinePath(id))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(inline)))
		_, _ = w.Write(inline) // the client has closed the connection
		return nil
	}
	length := list[0].header
	for _, o := range list {
		length += o.text - o.header
	}
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	for i, o := range list {
		name, ok := rc.objectName(id, o.Key)
		if !ok || copyCSV(w, rc.objectPath(id, name), i == 0) != nil {
			return nil // the client sees that the answer is too short
		}
	}
	return nil
}

// copyCSV writes an object's lines, the first one only with header.
func copyCSV(w io.Writer, path string, header bool) error {
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
	text := bufio.NewReader(gz)
	for first := true; first && !header; {
		if _, err := text.ReadSlice('\n'); err == nil {
			first = false
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	_, err = text.WriteTo(w)
	return err
}
