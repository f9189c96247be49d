package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/resource-tracker/rt/site"
)

// runDetail is GET /v1/runs/{run_id}.
type runDetail struct {
	jobView
	runView
	Created  time.Time       `json:"created"`
	Finished *time.Time      `json:"finished"`
	Expired  []site.Class    `json:"expired"` // whose objects retention has removed
	Metadata json.RawMessage `json:"metadata"`
	Finish   *finishView     `json:"finish"`
	Objects  []objectView    `json:"objects"`
}

type finishView struct {
	RunStatus    string  `json:"run_status"`
	ExitCode     *int64  `json:"exit_code"`
	DataSource   string  `json:"data_source"`
	RecordSHA256 *string `json:"record_sha256"`
}

// objectView is an object of a run.
type objectView struct {
	Name   string `json:"name"`
	Class  string `json:"class"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Rows   int64  `json:"rows"`
}

// visible returns a run that the reader may see.
func (s *readers) visible(r *http.Request, q reading, id string) (site.StoredRun, error) {
	if _, err := parseQuery(r); err != nil {
		return site.StoredRun{}, err
	}
	return s.conf.Registry.Visible.Get(q.ctx, id, q.access)
}

// readRun answers GET /v1/runs/{run_id}.
func (s *readers) readRun(w http.ResponseWriter, r *http.Request, q reading, id string) error {
	run, err := s.visible(r, q, id)
	if err != nil {
		return err
	}
	objects, err := s.conf.Registry.Objects.OfRun(q.ctx, id)
	if err != nil {
		return err
	}
	v := runDetail{
		jobView: viewOfJob(run.Record), runView: viewOfRun(run), Created: run.Created, Finished: knownTime(run.Finished), Metadata: cleaned(run.Metadata),
		Expired: append([]site.Class{}, run.Expired...), Objects: make([]objectView, len(objects)),
	}
	for i, o := range objects {
		v.Objects[i] = objectView{o.Name, string(o.Class), o.Bytes, o.SHA256, o.Rows}
	}
	if f := run.Finish; f != nil {
		v.Finish = &finishView{f.RunStatus, f.ExitCode, f.DataSource, known(f.RecordSum)}
	}
	text, err := q.encode(v)
	if err != nil && q.ctx.Err() == nil {
		return errors.New("the metadata of run " + id + " is damaged")
	}
	if err != nil {
		return err
	}
	replyText(w, text)
	return nil
}

// readSummary answers GET /v1/runs/{run_id}/summary.
func (s *readers) readSummary(w http.ResponseWriter, r *http.Request, q reading, id string) error {
	run, err := s.visible(r, q, id)
	if err != nil {
		return err
	}
	if run.Finish == nil || isNull(run.Finish.Summary) {
		return refuse(http.StatusNotFound, "the run has no summary")
	}
	replyText(w, cleaned(run.Finish.Summary))
	return nil
}

// readCSV answers GET /v1/runs/{run_id}/csv.
func (s *readers) readCSV(w http.ResponseWriter, r *http.Request, q reading, id string) error {
	if _, err := s.visible(r, q, id); err != nil {
		return err
	}
	return s.ownRuns.data(w, q.turn, id)
}

// readRecord answers GET /v1/runs/{run_id}/record.
func (s *readers) readRecord(w http.ResponseWriter, r *http.Request, q reading, id string) error {
	if _, err := s.visible(r, q, id); err != nil {
		return err
	}
	o, content, err := s.openRecord(q.ctx, id)
	if err != nil {
		return err
	}
	defer content.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(o.Bytes, 10))
	w.Header().Set("ETag", `"`+o.SHA256+`"`)
	if _, err := io.Copy(w, content); err != nil {
		s.problems.abort(err)
	}
	return nil
}

// openRecord opens the complete record of a run. A newer record may replace the record during the read. Then the bytes
// in the object store are gone, and the second attempt finds the newer one.
func (s *readers) openRecord(ctx context.Context, id string) (o site.Object, content io.ReadCloser, err error) {
	o, content, err = s.tryRecord(ctx, id)
	if errors.Is(err, site.ErrNotFound) {
		return s.tryRecord(ctx, id)
	}
	return o, content, err
}

func (s *readers) tryRecord(ctx context.Context, id string) (site.Object, io.ReadCloser, error) {
	o, err := s.conf.Registry.Objects.RecordOf(ctx, id)
	if errors.Is(err, site.ErrNotFound) {
		return o, nil, refuse(http.StatusNotFound, "the run has no complete record")
	}
	if err != nil {
		return o, nil, err
	}
	if o.Stored != "" {
		content, err := s.conf.Objects.Get(ctx, o.Stored)
		return o, content, err
	}
	content, err := s.conf.Registry.Objects.Body(ctx, id, o.Name)
	sum := sha256.Sum256(content)
	if err == nil && hex.EncodeToString(sum[:]) != o.SHA256 {
		err = site.ErrNotFound // it was replaced
	}
	return o, io.NopCloser(bytes.NewReader(content)), err
}
