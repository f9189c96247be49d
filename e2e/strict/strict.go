// Package strict wraps a receiver so that it refuses all that a receiver may refuse. Tests use it
// for clients that must not depend on a lenient receiver.
package strict

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// Handler is a receiver that hides a closed run. It refuses a second finish, even of the same rows, new credentials,
// and further uploads. The status of the second finish is 404, 409, 410 or 422, by the id of the run. A run can also
// be forgotten. A finish that names a record is refused with 422 if the newest upload of the record is another one.
type Handler struct {
	next http.Handler

	mu        sync.Mutex
	closed    map[string]bool
	forgotten map[string]bool
	records   map[string]string // SHA-256 of the newest record, by run
}

// New returns a Handler in front of a receiver.
func New(next http.Handler) *Handler {
	return &Handler{next: next, closed: map[string]bool{}, forgotten: map[string]bool{}, records: map[string]string{}}
}

// Forget makes the receiver forget a run, and reports whether it did. It keeps a run that is closed or has a record.
// The client may have saved that it sends the finish, and then it cannot distinguish a forgotten run from a closed
// run.
func (h *Handler) Forget(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, hasRecord := h.records[id]
	isKept := h.closed[id] || hasRecord
	if !isKept {
		h.forgotten[id] = true
	}
	return h.forgotten[id]
}

// Forgotten returns the ids of the forgotten runs.
func (h *Handler) Forgotten() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.forgotten)
}

// Run splits the path of a request about a run: its id, and "finish" or "refresh-credentials";
// or the id and "" for an upload. The id is empty for any other request.
func Run(r *http.Request) (id, what string) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && len(parts) == 3:
		return parts[1], parts[2]
	case r.Method == http.MethodPut && len(parts) > 2:
		return parts[len(parts)-2], ""
	}
	return "", ""
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, what := Run(r)
	h.mu.Lock()
	isClosed, isForgotten, record := h.closed[id], h.forgotten[id], h.records[id]
	h.mu.Unlock()
	named := namedRecord(r, what)
	switch {
	case isForgotten:
		refuse(w, http.StatusNotFound, "there is no such run")
		return
	case isClosed && what == "finish":
		statuses := [...]int{http.StatusNotFound, http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity}
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(id))
		refuse(w, statuses[sum.Sum32()%uint32(len(statuses))], "run finished twice")
		return
	case isClosed:
		refuse(w, http.StatusNotFound, "the run is closed")
		return
	case named != "" && named != record:
		refuse(w, http.StatusUnprocessableEntity, "the stored record is another one")
		return
	}
	isRecord := r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/run.rtrec")
	if what != "finish" && !isRecord {
		h.next.ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	h.next.ServeHTTP(answer, r)
	if answer.Code == http.StatusOK {
		h.mu.Lock()
		if isRecord {
			h.records[id] = r.Header.Get("X-Amz-Content-Sha256")
		} else {
			h.closed[id] = true
		}
		h.mu.Unlock()
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// namedRecord returns the SHA-256 of the record that a finish names, empty for none. It replaces the body,
// which it reads.
func namedRecord(r *http.Request, what string) string {
	if what != "finish" {
		return ""
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var f struct {
		Sum string `json:"record_sha256"`
	}
	if err != nil || json.Unmarshal(body, &f) != nil {
		return ""
	}
	return f.Sum
}

func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"detail": detail})
}
