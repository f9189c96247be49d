package api

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt/site"
)

// liveFields are the fields of a registration at the public service.
var liveFields = strings.Fields(`job_name project_name stage_name task_name team env language orchestrator
	executor external_run_id container_image tags command host_id host_hostname host_ip host_server_allocation
	host_vcpus host_cpu_model host_memory_mib host_gpu_model host_gpu_count host_gpu_memory_mib host_storage_gb
	cloud_vendor_id cloud_account_id cloud_region_id cloud_zone_id cloud_instance_type`)

// liveFinishFields are the fields of a finish there.
var liveFinishFields = strings.Fields("exit_code run_status finished_at data_source data_uris data_csv")

// register answers POST /runs.
func (s *receiver) register(w http.ResponseWriter, t turn, body []byte) error {
	if err := s.checkObject(t, body, liveFields); err != nil {
		return err
	}
	now := time.Now()
	run := site.Run{ID: newID(now), Owner: t.client, Created: now.UTC(), Metadata: body}
	if err := s.conf.Registry.Runs.Create(t.ctx, run); err != nil {
		return err
	}
	answer := map[string]any{
		"run_id":             run.ID,
		"upload_uri_prefix":  "s3://" + s.conf.Bucket + "/" + s.conf.Prefix,
		"upload_credentials": s.credentials(run.ID, t.client, now),
	}
	if s.conf.RunOf != nil {
		extensions := map[string]int{"rt.record": 1}
		if !site.IsOwnerOfUser(t.client) {
			extensions["rt.node"] = 1
		}
		answer["extensions"] = extensions
	}
	reply(w, http.StatusCreated, answer)
	return nil
}

// newID returns the id of a new run. Ids sort by time.
func newID(now time.Time) string {
	return now.UTC().Format("20060102t150405-") + strings.ToLower(rand.Text())
}

// refresh answers POST /runs/{id}/refresh-credentials.
func (s *receiver) refresh(w http.ResponseWriter, t turn, id string) error {
	if _, err := s.ownRun(t.ctx, id, t.client); err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"upload_credentials": s.credentials(id, t.client, time.Now())})
	return nil
}

func (s *receiver) credentials(id, owner string, now time.Time) map[string]string {
	c := s.owners.keys.issue(id, owner, now.Add(s.conf.CredentialLife))
	end := "expiration"
	if s.conf.Dialect == DialectLive {
		end = "expires_at"
	}
	return map[string]string{
		"access_key": c.accessKey, "secret_key": c.secretKey, "session_token": c.sessionToken,
		end: c.expires.Format(time.RFC3339), "region": s.conf.Region,
	}
}

// checkObject checks that a body is a JSON object. In the dialect of the public service it
// refuses the fields that the service does not know.
func (s *receiver) checkObject(t turn, body []byte, known []string) error {
	var unknown []string
	isObject := false
	failed := t.do(func() {
		isObject = bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body)
		if isObject && s.conf.Dialect == DialectLive {
			unknown = unknownFields(body, known)
		}
	})
	switch {
	case failed != nil:
		return failed
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
