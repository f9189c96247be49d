package receiver

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
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
func (rc *Receiver) register(w http.ResponseWriter, t turn, body []byte) error {
	if err := rc.checkObject(t, body, liveFields); err != nil {
		return err
	}
	now := time.Now()
	run, err := rc.store.create(t.client, body, now)
	if err != nil {
		return err
	}
	reply(w, http.StatusCreated, map[string]any{
		"run_id":             run.ID,
		"upload_uri_prefix":  "s3://" + rc.conf.Bucket + "/" + rc.conf.Prefix,
		"upload_credentials": rc.credentials(run.ID, t.client, now),
	})
	return nil
}

// refresh answers POST /runs/{id}/refresh-credentials.
func (rc *Receiver) refresh(w http.ResponseWriter, owner, id string) {
	reply(w, http.StatusOK, map[string]any{"upload_credentials": rc.credentials(id, owner, time.Now())})
}

func (rc *Receiver) credentials(id, owner string, now time.Time) map[string]string {
	c := rc.keys.issue(id, owner, now.Add(rc.conf.CredentialLife))
	end := "expiration"
	if rc.conf.Dialect == upload.DialectLive {
		end = "expires_at"
	}
	return map[string]string{
		"access_key": c.accessKey, "secret_key": c.secretKey, "session_token": c.sessionToken,
		end: c.expires.Format(time.RFC3339), "region": rc.conf.Region,
	}
}

// checkObject checks that a body is a JSON object. In the dialect of the public service it
// refuses the fields that the service does not know.
func (rc *Receiver) checkObject(t turn, body []byte, known []string) error {
	var unknown []string
	isObject := false
	ended := t.do(func() {
		isObject = bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body)
		if isObject && rc.conf.Dialect == upload.DialectLive {
			unknown = unknownFields(body, known)
		}
	})
	switch {
	case ended != nil:
		return ended
	case !isObject:
		return refuse(http.StatusBadRequest, "the request is not a JSON object")
	case len(unknown) > 0:
		return refuse(http.StatusUnprocessableEntity, "unknown fields: %s", strings.Join(unknown, ", "))
	}
	return nil
}

// unknownFields returns the first fields of an object that are not known. It reads field by
// field: a map of a hostile object takes many times its size.
func unknownFields(object []byte, known []string) (unknown []string) {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token() // the brace of a valid object
	for dec.More() && len(unknown) < 10 {
		name, _ := dec.Token()
		var value json.RawMessage
		if text, isText := name.(string); isText && !slices.Contains(known, text) {
			unknown = append(unknown, text)
		}
		if dec.Decode(&value) != nil {
			break
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

// finish is the end of a run, as stored in run.json.
type finish struct {
	ExitCode   *int64   `json:"exit_code"`
	RunStatus  string   `json:"run_status"` // "finished" or "failed"
	DataSource string   `json:"data_source"`
	DataURIs   []string `json:"data_uris,omitempty"`
	CSVSHA256  string   `json:"csv_sha256,omitempty"` // of inline data
}

// sameRows reports whether two finishes have the same rows. Their outcomes may differ: if the
// answer to the first was lost, sacct may have corrected the outcome before the second.
func (f *finish) sameRows(o *finish) bool {
	return f.DataSource == o.DataSource && slices.Equal(f.DataURIs, o.DataURIs) && f.CSVSHA256 == o.CSVSHA256
}

func (f *finish) sameEnd(o *finish) bool {
	return f.RunStatus == o.RunStatus && reflect.DeepEqual(f.ExitCode, o.ExitCode)
}

// finish answers POST /runs/{id}/finish. A repeated finish with the same rows succeeds: the
// answer to the first one may have been lost.
func (rc *Receiver) finish(w http.ResponseWriter, t turn, id string, body []byte) error {
	if err := rc.checkObject(t, body, liveFinishFields); err != nil {
		return err
	}
	f, packed, err := rc.parseFinish(t, body, id)
	if err != nil {
		return err
	}
	if err := rc.close(id, f, packed); err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]string{"run_id": id, "run_status": f.RunStatus})
	return nil
}

// parseFinish returns a finish and its inline data, compressed.
func (rc *Receiver) parseFinish(t turn, body []byte, id string) (*finish, []byte, error) {
	var in struct {
		finish
		RunID    string          `json:"run_id"`
		DataURIs json.RawMessage `json:"data_uris"`
		DataCSV  string          `json:"data_csv"`
	}
	var err error
	if ended := t.do(func() {
		err = json.Unmarshal(body, &in)
		if err != nil || len(in.DataURIs) == 0 {
			return
		}
		if bytes.Count(in.DataURIs, []byte(`"`)) > 2*maxObjects {
			err = refuse(http.StatusRequestEntityTooLarge, "data_uris may have %d URIs", maxObjects)
			return
		}
		err = json.Unmarshal(in.DataURIs, &in.finish.DataURIs)
	}); ended != nil {
		return nil, nil, ended
	}
	if _, isProblem := errors.AsType[*problem](err); isProblem {
		return nil, nil, err
	}
	if err != nil {
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
		packed, sum, err := rc.unpack(t, in.DataCSV)
		f.CSVSHA256 = sum
		return &f, packed, err
	}
	return nil, nil, refuse(http.StatusUnprocessableEntity, "data_source must be s3 with data_uris, or inline with data_csv")
}

// unpack decodes inline data: base64(gzip(csv)) as specified, plain text in the dialect of
// the public service. It returns the data compressed, and the SHA-256 of the text, which is
// never in memory as a whole if it came compressed.
func (rc *Receiver) unpack(t turn, text string) (packed []byte, sum string, err error) {
	packed, err = base64.StdEncoding.DecodeString(text)
	isPlain := rc.conf.Dialect == "" && err != nil
	if rc.conf.Dialect == upload.DialectLive || isPlain {
		return packText(t, text)
	}
	if err != nil {
		return nil, "", refuse(http.StatusUnprocessableEntity, "data_csv is not base64 of gzip of CSV")
	}
	hash := sha256.New()
	_, err = inspect(t, bytes.NewReader(packed), inflatedLimit(int64(len(packed)), maxInline), hash)
	if errors.Is(err, errNoGzip) {
		err = refuse(http.StatusUnprocessableEntity, "data_csv is not base64 of gzip of CSV: %v", err)
	}
	return packed, hex.EncodeToString(hash.Sum(nil)), err
}

func packText(t turn, text string) (packed []byte, sum string, err error) {
	var b bytes.Buffer
	ended := t.do(func() {
		hash := sha256.Sum256([]byte(text))
		sum = hex.EncodeToString(hash[:])
		gz := gzip.NewWriter(&b)
		_, err = io.WriteString(gz, text)
		err = errors.Join(err, gz.Close())
	})
	return b.Bytes(), sum, errors.Join(ended, err)
}

// close writes the finish durably, once.
func (rc *Receiver) close(id string, f *finish, packed []byte) error {
	defer rc.store.lock(id)()
	r, err := rc.store.load(id)
	if err != nil {
		return err
	}
	inline := file{runFile(id, inlineName), packed}
	if r.Finish != nil {
		if !r.Finish.sameRows(f) {
			return refuse(http.StatusConflict, "the run was finished before, with other rows")
		}
		if err := rc.confirm(r, inline); err != nil || r.Finish.sameEnd(f) {
			return err
		}
		r.Finish = f
		return rc.store.save(r)
	}
	if err := rc.checkURIs(id, f.DataURIs); err != nil {
		return err
	}
	r.Finish, r.Finished = f, time.Now().UTC()
	if f.DataSource == "inline" {
		return rc.store.save(r, inline)
	}
	return rc.store.save(r)
}

// checkURIs checks that each URI names an object of the run, and none twice.
func (rc *Receiver) checkURIs(id string, uris []string) error {
	named := make(map[string]bool, len(uris))
	for _, uri := range uris {
		name, ok := rc.objectOf(id, uri)
		if !ok {
			return refuse(http.StatusUnprocessableEntity, "%s is not an object of this run", uri)
		}
		if named[name] {
			return refuse(http.StatusUnprocessableEntity, "data_uris has %s twice", uri)
		}
		named[name] = true
		if _, err := os.Stat(rc.objectPath(id, name)); errors.Is(err, os.ErrNotExist) {
			return refuse(http.StatusUnprocessableEntity, "%s has not been uploaded", uri)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// confirm answers a repeated finish. If the disk failed during the first one, that got no answer
// and its rows may be missing. Therefore confirm checks that they are there.
func (rc *Receiver) confirm(r run, inline file) error {
	if r.Finish.DataSource == "inline" {
		old, err := os.ReadFile(rc.inlinePath(r.ID))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err != nil || !bytes.Equal(old, inline.content) {
			return rc.store.keepOf(r, inline)
		}
	}
	return rc.store.writable()
}
