// Package api serves a site's runs over HTTP: the Sentinel API and an S3-compatible PUT on one
// listener. It verifies signatures, and its credentials expire and are valid for one run only. Runs
// are in a registry, large objects in an object store. Both are durable before the answer to a
// request, so that the process may be killed at any instant.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/auth"
	"github.com/resource-tracker/rt/site/page"
	"github.com/resource-tracker/rt/site/registry"
	sitereport "github.com/resource-tracker/rt/site/report"
)

// Config of a Server.
type Config struct {
	Registry *registry.Registry
	Objects  site.ObjectStore
	Temp     string        // directory of temporary files; os.TempDir when empty
	Tokens   []Token       // each permits to register runs, and to read and finish its owner's runs
	Readers  *auth.Readers // who may use the paths below /v1, and the pages; nil: no one
	Pages    *page.Pages   // nil: there are none
	// Report writes the report of a job, as Maker.Write of site/report; nil: there are none.
	Report func(ctx context.Context, w io.Writer, r site.Report) error
	// Metrics answers GET /metrics of operators; nil: there are none.
	Metrics http.Handler

	// CredentialLife is how long upload credentials last; an hour when 0.
	CredentialLife time.Duration
	MaxObject      int64 // bytes of one object, compressed; 64 MiB when 0
	// MaxRequests with a complete body are served at the same time, a quarter of them for one
	// token; others wait. 256 when 0.
	MaxRequests int
	// ClientRate is how many requests a second one address may send; 0: any number.
	ClientRate float64
	// TokenRate limits the bodies of one token, in bytes per second on average; 0 means no limit.
	TokenRate int64
	// RunOf returns the run of a complete record; nil: complete records are not accepted. Its error wraps
	// site.ErrNewer if a newer version of rt wrote the record.
	RunOf func(record io.Reader) (rt.Run, error)
	// Finished receives the finish of a run that was not finished before; may be nil.
	Finished func(site.Finish)
	// Fault receives the errors of registry and object store for which a request is answered with
	// 500; may be nil.
	Fault func(error)
}

// What credentials are for: the bucket, the beginning of all keys in it, and the region.
const (
	bucket = "rt"
	prefix = "runs"
	region = "eu-central-1"
)

const (
	maxFinish   = 8 << 20          // bytes of a finish, with inline data
	maxMetadata = 256 << 10        // bytes of a registration
	maxSummary  = 64 << 10         // bytes of the summary in a finish
	maxDepth    = 64               // nested objects and arrays of the summary
	maxInline   = 64 << 20         // bytes of inline data, decompressed
	maxInflated = 1 << 30          // bytes of an object, decompressed
	maxRows     = 10_000_000       // of an object or of inline data
	maxObjects  = 1 << 15          // of a finish
	maxSkew     = 15 * time.Minute // between a signature's time and now
)

// Server passes the requests to its parts, by their paths. It is safe for concurrent use.
type Server struct {
	conf      *Config
	limits    *limits
	owners    *owners
	problems  problems
	blobs     blobs
	uploads   *uploads
	receiver  *receiver
	readers   *readers
	retention *retention
	origin    http.CrossOriginProtection // of requests that change something
}

// Close refuses new requests and waits 10 s for those in progress. If it returns an error, some
// still use the registry and the object store.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	if !s.limits.open.End(ctx) {
		return fmt.Errorf("requests are still in progress %s after the end", maxWait)
	}
	return nil
}

// New returns a Server. The error is ErrNotOwner if the object store belongs to another registry.
func New(ctx context.Context, c Config) (*Server, error) {
	setDefault(&c.CredentialLife, time.Hour)
	setDefault(&c.MaxObject, 64<<20)
	setDefault(&c.MaxRequests, 256)
	if c.Fault == nil {
		c.Fault = func(error) {}
	}
	if c.Finished == nil {
		c.Finished = func(site.Finish) {}
	}
	switch {
	case len(c.Tokens) == 0:
		return nil, errors.New("the receiver needs at least one token: without it no client can register a run")
	case c.MaxObject > maxTokenLarge<<10:
		return nil, fmt.Errorf("the receiver's largest object of %d bytes: it may be %d", c.MaxObject, maxTokenLarge<<10)
	}
	m, err := newMarker(ctx, c.Registry, c.Objects)
	if err == nil {
		err = m.renew(ctx)
	}
	if err != nil {
		return nil, err
	}
	s := assemble(&c, m)
	s.SetTokens(c.Tokens)
	return s, nil
}

// assemble returns a Server without tokens.
func assemble(c *Config, m *marker) *Server {
	limits, owners, problems := newLimits(c), &owners{keys: m.keys}, problems{c.Fault}
	names, bodies, blobs := keyNames{c.RunOf != nil}, bodies{limits, c.Temp}, blobs{c.Registry.Runs, c.Objects}
	ownRuns := &ownRuns{c, names, problems}
	return &Server{
		conf: c, limits: limits, owners: owners, problems: problems, blobs: blobs,
		uploads:   &uploads{c, owners, names, bodies, blobs, problems},
		receiver:  &receiver{c, owners, names, bodies, blobs, ownRuns},
		readers:   &readers{c, limits, ownRuns, problems, sitereport.Jobs{Registry: c.Registry, Write: c.Report, Fault: c.Fault}},
		retention: &retention{c, m, blobs},
	}
}

// setDefault sets a value that is empty, zero or negative.
func setDefault[T cmp.Ordered](v *T, def T) {
	var zero T
	if *v <= zero {
		*v = def
	}
}

// SetTokens replaces the tokens that are accepted, from the next request on. Credentials for
// uploads are valid as long as their owner has a token.
func (s *Server) SetTokens(tokens []Token) {
	known := make([]knownToken, len(tokens))
	for i, t := range tokens {
		known[i] = knownToken{t.Hash, s.owners.keys.owner(t), t.User}
	}
	s.owners.tokens.Store(&known)
}

// owners knows who may send runs.
type owners struct {
	keys   keyring
	tokens atomic.Pointer[[]knownToken]
}

// isKnown reports whether an owner has a token.
func (s *owners) isKnown(owner string) bool {
	return slices.ContainsFunc(*s.tokens.Load(), func(t knownToken) bool { return t.owner == owner })
}

// userOf returns the user to whose runs an owner is limited; empty if it is not.
func (s *owners) userOf(owner string) string {
	for _, t := range *s.tokens.Load() {
		if t.owner == owner {
			return t.user
		}
	}
	return ""
}

// receiver serves the Sentinel API: it registers and finishes runs. It also stores the reports of nodes.
type receiver struct {
	conf    *Config
	owners  *owners
	names   keyNames
	bodies  bodies
	blobs   blobs
	ownRuns *ownRuns
}

// ownRun returns the id, owner and finish of a run of this owner.
func (s *receiver) ownRun(ctx context.Context, id, owner string) (site.StoredRun, error) {
	run, err := s.conf.Registry.Runs.Head(ctx, id)
	if err == nil && run.Owner != owner {
		err = refuse(http.StatusForbidden, "the run is of another token: if this one replaces it, write the name %s after it in the token file of the service", run.Owner)
	}
	return run, err
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	address, now := addressOf(r.RemoteAddr), time.Now()
	if wait := s.limits.rate.early(address, now); wait > 0 {
		s.problems.failWith(w, r, tooFast(wait, "requests (serve.client_rate)"))
		return
	}
	s.limits.rate.count(address, 1, now)
	isForeign := s.origin.Check(r) != nil
	var err error
	switch { // Not a ServeMux: it would redirect keys that are not clean paths.
	case isForeign:
		err = refuse(http.StatusForbidden, "a page of another site has sent this request: it changes nothing")
	case strings.HasPrefix(r.URL.Path, "/"+bucket+"/"):
		s.uploads.serveObject(w, r)
	case s.readers.isLinks(r):
		err = s.readers.serveLinks(w, r)
	case strings.HasPrefix(r.URL.Path, "/"+readRoot+"/"):
		err = s.readers.serveReading(w, r)
	case s.readers.isMetrics(r):
		err = s.readers.serveMetrics(w, r)
	case s.readers.isPage(r):
		if err := s.readers.servePage(w, r); err != nil {
			s.problems.failPage(w, r, err)
		}
	default:
		err = s.serveOwner(w, r)
	}
	if err != nil {
		s.problems.failWith(w, r, err)
	}
}

// serveOwner answers a request of the Sentinel API, or the report of a node.
func (s *Server) serveOwner(w http.ResponseWriter, r *http.Request) error {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	isNode := (r.URL.Path == "/"+nodesPath || r.URL.Path == "/"+livePath) && s.conf.RunOf != nil
	isRuns := parts[0] == "runs" && len(parts) <= 3
	if !isRuns && !isNode {
		return refuse(http.StatusNotFound, "there is nothing at this path")
	}
	owner, ok := authorised(r, *s.owners.tokens.Load())
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		return refuse(http.StatusUnauthorized, "the token is missing or not known here")
	}
	answeredOf(r).Sender = owner
	switch {
	case isNode && parts[0] == livePath:
		return s.receiver.serveReport(w, r, owner, site.MaxLiveReport, s.receiver.putLive)
	case isNode:
		return s.receiver.serveReport(w, r, owner, maxNodeReport, s.receiver.putNode)
	}
	return s.receiver.serveAPI(w, r, owner, parts[1:])
}

// nameOfRun matches the ids of runs.
var nameOfRun = regexp.MustCompile(`^[0-9]{8}t[0-9]{6}-[a-z2-7]{26}$`)

func (s *receiver) serveAPI(w http.ResponseWriter, r *http.Request, owner string, path []string) error {
	leave, err := takeUnits(r.Context(), s.bodies.limits.open, owner, 1)
	if err != nil {
		return err
	}
	defer leave()
	route := r.Method
	if len(path) > 0 {
		route += " {id}"
	}
	if len(path) > 1 {
		route += " " + path[1]
	}
	if len(path) > 0 && !nameOfRun.MatchString(path[0]) {
		return errNoRun()
	}
	if r.Method == http.MethodGet {
		leave, err := takeUnits(r.Context(), s.bodies.limits.reads, owner, 1)
		if err != nil {
			return err
		}
		defer leave()
		w = &pacedWriter{ResponseWriter: w}
	}
	t := turn{r.Context(), owner, s.bodies.limits.cpu}
	switch route {
	case "POST":
		return s.bodies.withBody(w, r, owner, maxMetadata, func(body []byte) error { return s.register(w, t, body) })
	case "GET":
		return s.ownRuns.list(w, r, t)
	case "GET {id}", "GET {id} data":
		if _, err := s.ownRun(t.ctx, path[0], owner); err != nil {
			return err
		}
		if len(path) > 1 {
			return s.ownRuns.data(w, t, path[0])
		}
		return s.ownRuns.show(w, t, path[0])
	case "POST {id} refresh-credentials":
		return s.refresh(w, t, path[0])
	case "POST {id} finish":
		run, err := s.ownRun(t.ctx, path[0], owner)
		if err != nil {
			return err
		}
		return s.bodies.withBody(w, r, owner, maxFinish, func(body []byte) error { return s.finish(w, t, run, body) })
	}
	return refuse(http.StatusNotFound, "there is nothing at this path for %s", r.Method)
}

// withBody calls next with the whole body of a request, while the request holds units of work.
func (s bodies) withBody(w http.ResponseWriter, r *http.Request, owner string, limit int64, next func(body []byte) error) error {
	b, err := s.arrive(w, r, owner, limit, io.Discard)
	if err != nil {
		return bodyError(err, limit)
	}
	defer b.done()
	leave, err := takeUnits(r.Context(), s.limits.work, owner, b.work())
	if err != nil {
		return err
	}
	defer leave()
	content, err := b.content()
	if err != nil {
		return err
	}
	return next(content)
}
