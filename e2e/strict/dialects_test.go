package strict

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/resource-tracker/rt/upload"
)

func TestDialect(t *testing.T) {
	for _, c := range []struct {
		dialect, path, body string
		status              int
	}{
		{upload.DialectLive, "/runs", `{"pid":1}`, 422},
		{upload.DialectLive, "/runs", `{"host_name":"n"}`, 422},
		{upload.DialectLive, "/runs", `{"host_hostname":"n","command":"[]","tags":{}}`, 200},
		{upload.DialectSpec, "/runs", `{"pid":1}`, 200},
		{"", "/runs", `{"pid":1}`, 200},
		{upload.DialectSpec, "/runs/r1/finish", `{"run_status":"finished","data_source":"inline","data_csv":"a,b\n"}`, 422},
		{upload.DialectSpec, "/runs/r1/finish", `{"run_status":"finished","data_source":"inline","data_csv":""}`, 200},
		{upload.DialectLive, "/runs/r1/finish", `{"run_id":"r1","run_status":"finished","data_source":"inline","data_csv":"a\n"}`, 422},
		{upload.DialectLive, "/runs/r1/finish", `{"run_status":"failed","exit_code":1,"finished_at":"2026-01-01T00:00:00Z","data_source":"inline","data_csv":"a\n1\n"}`, 200},
	} {
		var got string
		h := Dialect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = string(body)
			_, _ = io.WriteString(w, `{"upload_credentials":{"expiration":"x"}}`)
		}), c.dialect)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, c.path, strings.NewReader(c.body)))
		isPassed := got == c.body
		if w.Code != c.status || isPassed != (c.status == 200) {
			t.Errorf("%s %s %s: %d %s", c.dialect, c.path, c.body, w.Code, w.Body)
		}
		isLive := strings.Contains(w.Body.String(), "expires_at")
		isRegistered := c.status == 200 && c.path == "/runs" && c.dialect == upload.DialectLive
		if isLive != isRegistered {
			t.Errorf("%s %s: %s", c.dialect, c.path, w.Body)
		}
	}
}
