package sentinel

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/resource-tracker/rt/upload"
)

// answerBody is the common part of both answers. The public service sends expires_at, the
// specification has expiration.
type answerBody struct {
	RunID           string          `json:"run_id"`
	UploadURIPrefix string          `json:"upload_uri_prefix"`
	Extensions      json.RawMessage `json:"extensions"`
	Credentials     *struct {
		AccessKey    string `json:"access_key"`
		SecretKey    string `json:"secret_key"`
		SessionToken string `json:"session_token"`
		Expiration   string `json:"expiration"`
		ExpiresAt    string `json:"expires_at"`
		Region       string `json:"region"`
	} `json:"upload_credentials"`
}

// parseRegistered parses and checks the answer to POST /runs. All of its values are checked,
// because they become parts of URLs, keys and headers.
func parseRegistered(b []byte) (got upload.Registered, takes takenReports, err error) {
	a, err := parseAnswer(b)
	if err != nil {
		return got, takes, err
	}
	if !validID(a.RunID) {
		return got, takes, errors.New("run_id is missing, or has other characters than letters, digits, '-', '_', '.'")
	}
	prefix := strings.TrimRight(a.UploadURIPrefix, "/")
	if rest, ok := strings.CutPrefix(prefix, "s3://"); !ok || rest == "" || rest[0] == '/' || !printable(prefix, 1024) {
		return got, takes, errors.New("upload_uri_prefix is missing or not s3://bucket/prefix")
	}
	cred, err := a.credentials()
	takes = takenReports{announces(a.Extensions, "rt.node"), announces(a.Extensions, "rt.live")}
	return upload.Registered{RemoteID: a.RunID, UploadURIPrefix: prefix, Record: announces(a.Extensions, "rt.record"), Credentials: cred}, takes, err
}

// takenReports are the reports that a receiver takes.
type takenReports struct{ nodes, live bool }

// maxExtensions limits the list of extensions, in bytes.
const maxExtensions = 4 << 10

// announces reports whether a list of extensions has version 1 of one: of rt.record, the receiver takes
// complete records; of rt.node, reports of nodes. rt.live is the same for running jobs. Extensions that are not
// known are ignored.
func announces(list json.RawMessage, name string) bool {
	var versions map[string]json.RawMessage
	if len(list) > maxExtensions || json.Unmarshal(list, &versions) != nil {
		return false
	}
	return string(versions[name]) == "1"
}

// parseRefreshed parses and checks the answer to POST /runs/{id}/refresh-credentials.
func parseRefreshed(b []byte) (upload.Credentials, error) {
	a, err := parseAnswer(b)
	if err != nil {
		return upload.Credentials{}, err
	}
	return a.credentials()
}

// isOwnError reports whether an answer has the shape of the API's errors: a JSON object with
// detail, or error. Gateways send HTML, text, or an object with a message. Some proxies remove the
// Content-Type of an answer: without it the body alone decides.
func isOwnError(header http.Header, body []byte) bool {
	if contentType := header.Get("Content-Type"); contentType != "" {
		kind, _, err := mime.ParseMediaType(contentType)
		isJSON := kind == "application/json" || kind == "application/problem+json"
		if err != nil || !isJSON {
			return false
		}
	}
	var e struct{ Detail, Error any }
	if json.Unmarshal(body, &e) != nil {
		return false
	}
	return e.Detail != nil || e.Error != nil
}

func parseAnswer(b []byte) (answerBody, error) {
	var a answerBody
	if err := json.Unmarshal(b, &a); err != nil {
		// The text of a JSON error may quote the answer, which has secrets.
		return a, errors.New("it is not the JSON object that was expected")
	}
	return a, nil
}

func (a *answerBody) credentials() (upload.Credentials, error) {
	c := a.Credentials
	if c == nil {
		return upload.Credentials{}, errors.New("upload_credentials is missing")
	}
	for name, v := range map[string]string{"access_key": c.AccessKey, "secret_key": c.SecretKey} {
		if v == "" || !printable(v, 512) {
			return upload.Credentials{}, fmt.Errorf("upload_credentials.%s is missing or malformed", name)
		}
	}
	if !printable(c.SessionToken, 16<<10) || !printable(c.Region, 64) {
		return upload.Credentials{}, errors.New("upload_credentials.session_token or region is malformed")
	}
	expires, err := parseTime(cmp.Or(c.Expiration, c.ExpiresAt))
	if err != nil {
		return upload.Credentials{}, err
	}
	return upload.Credentials{
		AccessKey: c.AccessKey, SecretKey: c.SecretKey, SessionToken: c.SessionToken,
		Expiration: expires, Region: c.Region,
	}, nil
}

// parseTime parses ISO 8601 with Z, an offset, or neither, which means UTC. The zero time of
// an empty text means that no expiration is known.
func parseTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("the expiration %q is not a time in ISO 8601", upload.Excerpt([]byte(s)))
}

// idCharacters are the characters of a run's id, which is not only dots.
const idCharacters = "-_.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func validID(id string) bool {
	return len(id) <= 200 && strings.Trim(id, ".") != "" && strings.Trim(id, idCharacters) == ""
}

// printable accepts ASCII without blanks and control characters, at most max bytes.
func printable(s string, max int) bool {
	isRefused := func(r rune) bool { return r <= ' ' || r > '~' }
	return len(s) <= max && !strings.ContainsFunc(s, isRefused)
}
