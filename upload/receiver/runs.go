package receiver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt/upload"
)

// liveFields are the fields of a registration at the public service.
var liveFields = strings.Fields(`job_name project_name stage_name task_name team env language orchestrator
	executor external_run_id container_image tags command host_id host_hostname host_ip host_server_allocation
	host_vcpus host_cpu_model host_memory_mib host_gpu_model host_gpu_count host_gpu_memory_mib host_storage_gb
	cloud_vendor_id cloud_account_id cloud_region_id cloud_zone_id cloud_instance_type`)

// liveFinishFields are the fields of a finish there.
var liveFinishFields = strings.Fields("exit_code run_status finished_at data_source data_uris data_csv")

// register answers POST /runs.
func (rc *Receiver) register(w http.ResponseWriter, r *http.Request) error {
	body, err := rc.readObject(w, r, maxMetadata, liveFields)
	if err != nil {
		return err
	}
	now := time.Now()
	run, err := rc.store.create(body, now)
	if err != nil {
		return err
	}
	reply(w, http.StatusCreated, map[string]any{
		"run_id":             run.ID,
		"upload_uri_prefix":  "s3://" + rc.conf.Bucket + "/" + rc.conf.Prefix,
		"upload_credentials": rc.credentials(run.ID, now),
	})
	return nil
}

// refresh answers POST /runs/{id}/refresh-credentials.
func (rc *Receiver) refresh(w http.ResponseWriter, id string) {
	reply(w, http.StatusOK, map[string]any{"upload_credentials": rc.credentials(id, time.Now())})
}

func (rc *Receiver) credentials(id string, now time.Time) map[string]string {
	c := rc.keys.issue(id, now.Add(rc.conf.CredentialLife))
	end := "expiration"
	if rc.conf.Dialect == upload.DialectLive {
		end = "expires_at"
	}
	return map[string]string{
		"access_key": c.accessKey, "secret_key": c.secretKey, "session_token": c.sessionToken,
		end: c.expires.Format(time.RFC3339), "region": rc.conf.Region,
	}
}

// readObject reads a request's JSON object. In the dialect of the public service it refuses
// the fields that the service does not know.
func (rc *Receiver) readObject(w http.ResponseWriter, r *http.Request, limit int64, known []string) (json.RawMessage, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the request may have %d bytes", limit)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the request is incomplete")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil || fields == nil {
		return nil, refuse(http.StatusBadRequest, "the request is not a JSON object")
	}
	if rc.conf.Dialect != upload.DialectLive {
		return body, nil
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, refuse(http.StatusUnprocessableEntity, "unknown fields: %s", strings.Join(unknown, ", "))
	}
	return body, nil
}

// finish is how a run was closed, as run.json keeps it.
type finish struct {
	ExitCode   *int64   `json:"exit_code"`
	RunStatus  string   `json:"run_status"` // "finished" or "failed"
	DataSource string   `json:"data_source"`
	DataURIs   []string `json:"data_uris,omitempty"`
	CSVSHA256  string   `json:"csv_sha256,omitempty"` // of inline data
}

// sameRows reports whether two finishes have the same rows. How the run ended may differ in
// the second: if the answer to the first was lost, accounting may have answered since.
func (f *finish) sameRows(o *finish) bool {
	return f.DataSource == o.DataSource && slices.Equal(f.DataURIs, o.DataURIs) && f.CSVSHA256 == o.CSVSHA256
}

func (f *finish) sameEnd(o *finish) bool {
	return f.RunStatus == o.RunStatus && reflect.DeepEqual(f.ExitCode, o.ExitCode)
}

// finish answers POST /runs/{id}/finish. A repeated finish with the same rows succeeds: the
// answer to the first one may have been lost.
func (rc *Receiver) finish(w http.ResponseWriter, r *http.Request, id string) error {
	body, err := rc.readObject(w, r, maxJSON, liveFinishFields)
	if err != nil {
		return err
	}
	f, csv, err := rc.parseFinish(body, id)
	if err != nil {
		return err
	}
	if err := rc.close(id, f, csv); err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]string{"run_id": id, "run_status": f.RunStatus})
	return nil
}

func (rc *Receiver) parseFinish(body []byte, id string) (*finish, []byte, error) {
	var in struct {
		finish
		RunID   string `json:"run_id"`
		DataCSV string `json:"data_csv"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "a field has the wrong type: %v", err)
	}
	f := in.finish
	f.CSVSHA256 = ""
	if in.RunID != "" && in.RunID != id {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "run_id is that of another run")
	}
	if f.RunStatus != upload.StatusFinished && f.RunStatus != upload.StatusFailed {
		return nil, nil, refuse(http.StatusUnprocessableEntity, "run_status must be finished or failed")
	}
	switch {
	case f.DataSource == "s3" && len(f.DataURIs) > 0 && in.DataCSV == "":
		return &f, nil, nil
	case f.DataSource == "inline" && len(f.DataURIs) == 0:
		csv, err := rc.unpack(in.DataCSV)
		sum := sha256.Sum256(csv)
		f.CSVSHA256 = hex.EncodeToString(sum[:])
		return &f, csv, err
	}
	return nil, nil, refuse(http.StatusUnprocessableEntity, "data_source must be s3 with data_uris, or inline with data_csv")
}

// unpack decodes inline data: base64(gzip(csv)) as specified, plain text in the dialect of
// the public service.
func (rc *Receiver) unpack(text string) ([]byte, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	isPlain := rc.conf.Dialect == "" && err != nil
	if rc.conf.Dialect == upload.DialectLive || isPlain {
		return []byte(text), nil
	}
	bad := refuse(http.StatusUnprocessableEntity, "data_csv is not base64 of gzip of CSV")
	if err != nil {
		return nil, bad
	}
	gz, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, bad
	}
	defer gz.Close()
	csv, err := io.ReadAll(io.LimitReader(gz, maxInflated+1))
	if err != nil || len(csv) > maxInflated {
		return nil, bad
	}
	return csv, nil
}

// close writes the finish durably, once.
func (rc *Receiver) close(id string, f *finish, csv []byte) error {
	defer rc.store.lock(id)()
	r, err := rc.store.load(id)
	if err != nil {
		return err
	}
	if r.Finish != nil {
		if !r.Finish.sameRows(f) {
			return refuse(http.StatusConflict, "the run was finished before, with other rows")
		}
		if err := rc.confirm(r, csv); err != nil || r.Finish.sameEnd(f) {
			return err
		}
		r.Finish = f
		return rc.store.save(r)
	}
	for _, uri := range f.DataURIs {
		name, ok := rc.objectName(id, strings.TrimPrefix(uri, "s3://"+rc.conf.Bucket+"/"))
		if !ok {
			return refuse(http.StatusUnprocessableEntity, "%s is not an object of this run", uri)
		}
		if _, err := rc.store.object(rc.objectPath(id, name)); errors.Is(err, os.ErrNotExist) {
			return refuse(http.StatusUnprocessableEntity, "%s has not been uploaded", uri)
		} else if err != nil {
			return err
		}
	}
	r.Finish, r.Finished = f, time.Now().UTC()
	if f.DataSource == "inline" {
		return rc.store.save(r, file{runFile(id, "inline.csv"), csv})
	}
	return rc.store.save(r)
}

// confirm answers a repeated finish. The one before may have had no answer because the disk
// failed: confirm checks that its rows are there.
func (rc *Receiver) confirm(r run, csv []byte) error {
	if r.Finish.DataSource == "inline" {
		old, err := os.ReadFile(rc.inlinePath(r.ID))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err != nil || !bytes.Equal(old, csv) {
			return rc.store.keep(file{runFile(r.ID, "inline.csv"), csv})
		}
	}
	return rc.store.journal.sound()
}
