package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt/site"
)

// The values of run_status.
const (
	StatusFinished = "finished"
	StatusFailed   = "failed"
)

// The values of data_source.
const (
	sourceS3     = "s3"
	sourceInline = "inline"
)

// finish answers POST /runs/{id}/finish. A repeated finish with the same rows succeeds: the
// answer to the first one may have been lost.
func (s *receiver) finish(w http.ResponseWriter, t turn, run site.StoredRun, body []byte) error {
	if err := checkObject(t, body); err != nil {
		return err
	}
	f, in, err := s.parseFinish(t, body, run.ID)
	if err != nil {
		return err
	}
	var done site.Finished
	if f.DataSource == sourceS3 {
		done, err = s.conf.Registry.Runs.Finish(t.ctx, run.ID, f, nil, nil)
	} else {
		done, err = s.finishInline(t, run, f, in.DataCSV)
	}
	if errors.Is(err, site.ErrFinished) {
		err = refuse(http.StatusConflict, "the run was finished before, with other rows")
	}
	if err != nil {
		return err
	}
	if done.IsFirst {
		s.conf.Finished(f)
	}
	reply(w, http.StatusOK, map[string]string{"run_id": run.ID, "run_status": f.RunStatus})
	return nil
}

// finishBody is the body of a finish.
type finishBody struct {
	ExitCode   *int64          `json:"exit_code"`
	RunStatus  string          `json:"run_status"`
	DataSource string          `json:"data_source"`
	RunID      string          `json:"run_id"`
	DataURIs   json.RawMessage `json:"data_uris"`
	DataCSV    string          `json:"data_csv"`
	Summary    json.RawMessage `json:"summary"`
	RecordSum  string          `json:"record_sha256"`
}

// parseFinish returns a finish without the checksum of inline data, and its body.
func (s *receiver) parseFinish(t turn, body []byte, id string) (f site.Finish, in finishBody, err error) {
	var uris []string
	err = t.do(func() error {
		err := unmarshal(body, &in)
		if err == nil && len(in.DataURIs) > 0 {
			uris, err = parseURIs(in.DataURIs)
		}
		return err
	})
	if err != nil {
		return f, in, err
	}
	if err := in.check(id, len(uris)); err != nil {
		return f, in, err
	}
	f = site.Finish{ExitCode: in.ExitCode, RunStatus: in.RunStatus, DataSource: in.DataSource, RecordSum: strings.ToLower(in.RecordSum)}
	if !isNull(in.Summary) {
		f.Summary = in.Summary
	}
	f.Keys, err = s.names.ofURIs(id, uris)
	return f, in, err
}

// parseURIs limits the number of URIs before it makes a list of them.
func parseURIs(text []byte) (uris []string, err error) {
	if bytes.Count(text, []byte(`"`)) > 2*maxObjects {
		return nil, refuse(http.StatusRequestEntityTooLarge, "data_uris may have %d URIs", maxObjects)
	}
	err = unmarshal(text, &uris)
	return uris, err
}

func unmarshal(text []byte, to any) error {
	if err := json.Unmarshal(text, to); err != nil {
		return refuse(http.StatusUnprocessableEntity, "a field has the wrong type: %v", err)
	}
	return nil
}

// isNull reports whether a field is absent or null.
func isNull(field json.RawMessage) bool { return len(field) == 0 || string(field) == "null" }

// check checks the fields of a finish with a number of URIs.
func (in *finishBody) check(id string, uris int) error {
	sum, badSum := hex.DecodeString(in.RecordSum)
	hasRows := in.DataSource == sourceS3 && uris > 0 && in.DataCSV == ""
	isInline := in.DataSource == sourceInline && uris == 0
	isNoSum := badSum != nil || len(sum) != sha256.Size
	var wrong string
	switch {
	case len(in.Summary) > maxSummary:
		return refuse(http.StatusRequestEntityTooLarge, "summary may have %d bytes", maxSummary)
	case depth(in.Summary) > maxDepth:
		wrong = fmt.Sprintf("summary may have %d levels of objects and arrays", maxDepth)
	case in.RunID != "" && in.RunID != id:
		wrong = "run_id names another run"
	case in.RunStatus != StatusFinished && in.RunStatus != StatusFailed:
		wrong = "run_status must be finished or failed"
	case !hasRows && !isInline:
		wrong = "data_source must be s3 with data_uris, or inline with data_csv"
	case !isNull(in.Summary) && in.Summary[0] != '{':
		wrong = "summary must be a JSON object"
	case in.RecordSum != "" && isNoSum:
		wrong = "record_sha256 must be the SHA-256 of the record"
	}
	if wrong != "" {
		return refuse(http.StatusUnprocessableEntity, "%s", wrong)
	}
	return nil
}

// depth returns how deep the objects and arrays of a valid JSON text are nested.
func depth(text json.RawMessage) (deepest int) {
	level, isString := 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case isString && c == '\\':
			i++
		case c == '"':
			isString = !isString
		case isString:
		case c == '{', c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}', c == ']':
			level--
		}
	}
	return deepest
}

// ofURIs returns the names of the objects with these URIs: each must be in the run, and none may be
// there twice.
func (s keyNames) ofURIs(id string, uris []string) ([]string, error) {
	var names []string
	named := make(map[string]bool, len(uris))
	for _, uri := range uris {
		name, ok := s.objectOf(id, uri)
		if !ok || s.isRecord(name) {
			return nil, refuse(http.StatusUnprocessableEntity, "%s is not an object of this run", uri)
		}
		if named[name] {
			return nil, refuse(http.StatusUnprocessableEntity, "data_uris has %s twice", uri)
		}
		named[name] = true
		names = append(names, name)
	}
	return names, nil
}

// finishInline stores a finish with inline data. The object store has large data before the
// registry names its objects.
func (s *receiver) finishInline(t turn, run site.StoredRun, f site.Finish, text string) (done site.Finished, err error) {
	o := site.Object{RunID: run.ID, Name: site.InlineName, Class: site.ClassInline, Created: time.Now().UTC()}
	packed, err := s.unpack(t, text, &f, &o)
	if err != nil {
		return done, err
	}
	if old := run.Finish; old != nil && old.CSVSHA256 == f.CSVSHA256 {
		return s.conf.Registry.Runs.Finish(t.ctx, run.ID, f, nil, nil) // the data are there
	}
	ctx, cancel := detached(t.ctx)
	defer cancel()
	sum := sha256.Sum256(packed)
	o.Bytes, o.SHA256 = int64(len(packed)), hex.EncodeToString(sum[:])
	if len(packed) > site.MaxRow {
		if err := s.blobs.store(ctx, &o, bytes.NewReader(packed)); err != nil {
			return done, err
		}
		packed = nil
	}
	done, err = s.conf.Registry.Runs.Finish(ctx, run.ID, f, &o, packed)
	if err == nil {
		s.blobs.discard(ctx, done.Unused)
	} else if isRefused(err) {
		s.blobs.discard(ctx, o.Stored)
	}
	return done, err
}

// unpack decodes inline data: base64(gzip(csv)) as specified, plain text in the dialect of the public
// service. It returns the data compressed, and sets the SHA-256 of the text in the finish, and its
// counts in the object. Text that came compressed is never in memory as a whole.
func (s *receiver) unpack(t turn, text string, f *site.Finish, o *site.Object) (packed []byte, err error) {
	packed, err = base64.StdEncoding.DecodeString(text)
	if err != nil {
		return packText(t, text, f, o)
	}
	hash := sha256.New()
	err = inspect(t, bytes.NewReader(packed), inflatedLimit(int64(len(packed)), maxInline), hash, o)
	if errors.Is(err, errNoCSV) { // inline text may end within a line
		err = nil
	}
	if errors.Is(err, errNoGzip) {
		err = refuse(http.StatusUnprocessableEntity, "data_csv is not base64 of gzip of CSV: %v", err)
	}
	f.CSVSHA256 = hex.EncodeToString(hash.Sum(nil))
	return packed, err
}

func packText(t turn, text string, f *site.Finish, o *site.Object) (packed []byte, err error) {
	var b bytes.Buffer
	err = t.do(func() error {
		var c site.CSV
		c.Add([]byte(text))
		o.Rows, o.Text, o.Header = c.Rows, c.Text, c.Header
		hash := sha256.Sum256([]byte(text))
		f.CSVSHA256 = hex.EncodeToString(hash[:])
		gz := gzip.NewWriter(&b)
		_, err := io.WriteString(gz, text)
		return errors.Join(err, gz.Close())
	})
	return b.Bytes(), err
}
