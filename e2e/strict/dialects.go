package strict

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/upload"
)

// The fields of a registration and of a finish at the public service.
var (
	liveFields = strings.Fields(`job_name project_name stage_name task_name team env language orchestrator
		executor external_run_id container_image tags command host_id host_hostname host_ip host_server_allocation
		host_vcpus host_cpu_model host_memory_mib host_gpu_model host_gpu_count host_gpu_memory_mib host_storage_gb
		cloud_vendor_id cloud_account_id cloud_region_id cloud_zone_id cloud_instance_type`)
	liveFinishFields = strings.Fields("exit_code run_status finished_at data_source data_uris data_csv")
)

// Dialect is a receiver that accepts one dialect of the Sentinel API alone. upload.DialectLive refuses fields that the
// public service does not know, and answers with its names; upload.DialectSpec refuses inline data that are plain text.
// Empty is the receiver itself.
func Dialect(next http.Handler, dialect string) http.Handler {
	if dialect == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, what := Run(r)
		isRegistration := r.Method == http.MethodPost && strings.Trim(r.URL.Path, "/") == "runs"
		isFinish := what == "finish"
		if isRegistration || isFinish {
			if problem := checkDialect(r, dialect, isFinish); problem != "" {
				w.WriteHeader(http.StatusUnprocessableEntity)
				fmt.Fprintf(w, `{"detail":%q}`, problem)
				return
			}
		}
		hasCredentials := isRegistration || what == "refresh-credentials"
		if !hasCredentials || dialect != upload.DialectLive {
			next.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		body := bytes.Replace(answer.Body.Bytes(), []byte(`"expiration":`), []byte(`"expires_at":`), 1)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body) // the client has closed the connection
	})
}

// checkDialect returns what is wrong with the body of a request, and puts the body back.
func checkDialect(r *http.Request, dialect string, isFinish bool) string {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), broken{err}))
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(body, &fields) != nil {
		return "" // the receiver refuses it
	}
	if dialect == upload.DialectSpec {
		var text string
		_ = json.Unmarshal(fields["data_csv"], &text) // the receiver refuses another type
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			return "data_csv is not base64 of gzip of CSV"
		}
		return ""
	}
	known := liveFields
	if isFinish {
		known = liveFinishFields
	}
	for name := range fields {
		if !slices.Contains(known, name) {
			return "unknown field: " + name
		}
	}
	return ""
}

// broken is the rest of a body that could not be read.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) {
	if b.err == nil {
		return 0, io.EOF
	}
	return 0, b.err
}
