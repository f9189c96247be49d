package api

import (
	"net/http"
	"strings"
)

// metricsPath is the path of the metrics.
const metricsPath = "metrics"

// isMetrics reports whether a request is for the metrics.
func (s *readers) isMetrics(r *http.Request) bool {
	return s.conf.Metrics != nil && r.URL.Path == "/"+metricsPath
}

// serveMetrics answers GET /metrics of an operator. It does not wait for other requests: the metrics matter most
// while there are too many.
func (s *readers) serveMetrics(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		return refuse(http.StatusMethodNotAllowed, "only GET is possible here")
	}
	reader, err := s.readerOf(w, r)
	if err != nil {
		return err
	}
	if !reader.Operator {
		return refuse(http.StatusForbidden, "only operators may read the metrics: see serve.operators and serve.read_token_file in rt.toml(5)")
	}
	s.conf.Metrics.ServeHTTP(w, r)
	return nil
}

// Route names what a request is for: one of a small number of names.
func (s *Server) Route(r *http.Request) string {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	isRead := path[0] == readRoot && len(path) > 1
	isRun := path[0] == "runs" && len(path) <= 3
	switch {
	case strings.HasPrefix(r.URL.Path, "/"+bucket+"/"):
		return "object"
	case isRead && readRoute(path[1:]) != nil:
		return "read"
	case s.readers.isMetrics(r):
		return "metrics"
	case s.readers.isPage(r), s.readers.isLinks(r):
		return "page"
	case r.URL.Path == "/"+nodesPath, r.URL.Path == "/"+livePath:
		return "node"
	case !isRun:
		return "other"
	case r.Method == http.MethodGet:
		return "list"
	case len(path) == 1:
		return "register"
	case path[len(path)-1] == "finish":
		return "finish"
	case path[len(path)-1] == "refresh-credentials":
		return "refresh"
	}
	return "other"
}
