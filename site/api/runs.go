package api

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/resource-tracker/rt/site"
)

// register answers POST /runs.
func (s *receiver) register(w http.ResponseWriter, t turn, body []byte) error {
	if err := checkObject(t, body); err != nil {
		return err
	}
	now := time.Now()
	run := site.StoredRun{ID: newID(now), Owner: t.client, Created: now.UTC(), Metadata: body}
	if err := s.conf.Registry.Runs.Create(t.ctx, run); err != nil {
		return err
	}
	answer := map[string]any{
		"run_id":             run.ID,
		"upload_uri_prefix":  "s3://" + bucket + "/" + prefix,
		"upload_credentials": s.credentials(run.ID, t.client, now),
	}
	if s.conf.RunOf != nil {
		extensions := map[string]int{"rt.record": 1}
		if !site.IsOwnerOfUser(t.client) {
			extensions["rt.node"], extensions["rt.live"] = 1, 1
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
	return map[string]string{
		"access_key": c.accessKey, "secret_key": c.secretKey, "session_token": c.sessionToken,
		"expiration": c.expires.Format(time.RFC3339), "region": region,
	}
}

// checkObject checks that a body is a JSON object.
func checkObject(t turn, body []byte) error {
	return t.do(func() error {
		isObject := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body)
		if !isObject {
			return refuse(http.StatusBadRequest, "the request is not a JSON object")
		}
		return nil
	})
}
