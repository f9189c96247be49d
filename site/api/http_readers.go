package api

import (
	"cmp"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

// readRoot is the first part of the paths of the reading API.
const readRoot = "v1"

// reading is a request of a reader.
type reading struct {
	turn
	reader site.Reader
	access *site.Access
}

// readers serves the reading API, and the pages and metrics to those who may see them.
type readers struct {
	conf     *Config
	limits   *limits
	ownRuns  *ownRuns
	problems problems
	jobs     sitereport.Jobs
}

// serveReading answers a request below /v1.
func (s *readers) serveReading(w http.ResponseWriter, r *http.Request) error {
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"+readRoot+"/"), "/")
	handle := readRoute(path)
	switch {
	case handle == nil:
		return refuse(http.StatusNotFound, "there is nothing at this path")
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		return refuse(http.StatusMethodNotAllowed, "only GET is possible here")
	case path[0] == pathOpenAPI:
		return handle(s, w, r, reading{}, "")
	}
	reader, err := s.readerOf(w, r)
	if err != nil {
		return err
	}
	leave, err := s.admit(r, reader)
	if err != nil {
		return err
	}
	defer leave()
	id := ""
	if len(path) > 1 {
		id = path[1]
		if kind := pathIDs[path[0]]; !kind.form.MatchString(id) {
			return refuse(http.StatusNotFound, "%s", kind.absent)
		}
	}
	q := reading{turn{r.Context(), reader.Name, s.limits.cpu}, reader, reader.Access()}
	return handle(s, &pacedWriter{ResponseWriter: w}, r, q, id)
}

type readHandler func(s *readers, w http.ResponseWriter, r *http.Request, q reading, id string) error

// pathOpenAPI is the path of the description of the API.
const pathOpenAPI = "openapi.json"

// pathIDs are the ids after the first part of a path.
var pathIDs = map[string]struct {
	name   string // in readRoutes
	form   *regexp.Regexp
	absent string
}{
	"runs": {"{run_id}", nameOfRun, "there is no such run"},
	"jobs": {"{job}", nameOfJob, "there is no such job: the name of one is 12, 12_3 for a task of an array, or 12+1 for a component"},
}

// readRoutes are the paths below /v1, with the names of pathIDs for ids.
var readRoutes = map[string]readHandler{
	pathOpenAPI:             (*readers).serveOpenAPI, // without a reader
	"advice":                (*readers).readAdvice,
	"whoami":                (*readers).whoAmI,
	"jobs":                  (*readers).readJobs,
	"jobs/{job}":            (*readers).readJob,
	"nodes":                 (*readers).readNodes,
	"runs":                  (*readers).readRuns,
	"runs/{run_id}":         (*readers).readRun,
	"runs/{run_id}/record":  (*readers).readRecord,
	"runs/{run_id}/csv":     (*readers).readCSV,
	"runs/{run_id}/summary": (*readers).readSummary,
	"sums":                  (*readers).readSums,
	"unassigned":            (*readers).readUnassigned,
}

// readRoute returns the handler of a path, nil for none.
func readRoute(path []string) readHandler {
	pattern := append([]string{}, path...)
	if len(pattern) > 1 {
		pattern[1] = pathIDs[path[0]].name
	}
	return readRoutes[strings.Join(pattern, "/")]
}

// readerOf returns the sender of a request, or the answer to a request without a reader.
func (s *readers) readerOf(w http.ResponseWriter, r *http.Request) (site.Reader, error) {
	if s.conf.Readers == nil {
		return site.Reader{}, refuse(http.StatusForbidden, "this service has no readers: see serve.munge, serve.proxy_header and serve.read_token_file in rt.toml(5)")
	}
	reader, err := s.conf.Readers.Reader(withToken(r))
	if err != nil {
		return reader, s.notIdentified(w, err)
	}
	answeredOf(r).Sender = cmp.Or(reader.User, reader.Name)
	return reader, nil
}

// notIdentified returns the answer to a request whose reader could not be identified.
func (s *readers) notIdentified(w http.ResponseWriter, err error) error {
	switch {
	case errors.Is(err, site.ErrUnknownReader):
		for _, challenge := range s.conf.Readers.Challenges() {
			w.Header().Add("WWW-Authenticate", challenge)
		}
		return refuse(http.StatusUnauthorized, "%v", err)
	case errors.Is(err, site.ErrNoReader):
		return refuse(http.StatusForbidden, "%v", err)
	case !errors.Is(err, site.ErrBusy):
		s.conf.Fault(err)
		err = errors.New("the service cannot find out who sends this request; its log has the error")
	}
	return &problem{status: http.StatusServiceUnavailable, retry: maxWait, undone: true, detail: err.Error()}
}

// whoAmI answers GET /v1/whoami.
func (s *readers) whoAmI(w http.ResponseWriter, r *http.Request, q reading, _ string) error {
	if _, err := parseQuery(r); err != nil {
		return err
	}
	accounts := q.reader.Accounts
	if accounts == nil {
		accounts = []string{}
	}
	reply(w, http.StatusOK, map[string]any{
		"user": known(q.reader.User), "operator": q.reader.Operator, "accounts": accounts, "by": q.reader.By,
	})
	return nil
}
