// Package receiver is a self-hosted receiver for sites that may not send data out: the
// Sentinel API and an S3-compatible PUT on one listener, with verified signatures and
// credentials that expire and are valid for one run only. Its state is files on the local
// disk, each durable before the answer to its request, so that it may be killed at any
// instant.
package receiver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/resource-tracker/rt/upload"
)

// Config of a Receiver.
type Config struct {
	Dir    string      // of all data; created when it does not exist
	Tokens []TokenHash // each permits to register, finish and read runs

	Bucket string // name of the bucket; "rt" when empty
	Prefix string // of all keys in it, without slashes at its ends; "runs" when empty
	Region string // "eu-central-1" when empty

	// Dialect is upload.DialectSpec, or upload.DialectLive: then fields that the public
	// service does not know are refused with 422. Empty accepts both.
	Dialect string
	// CredentialLife is how long upload credentials last; an hour when 0.
	CredentialLife time.Duration
	MaxObject      int64 // bytes of one object, compressed; 64 MiB when 0
	// MaxRequests are served at the same time, others wait; 256 when 0.
	MaxRequests int
	// ClientRate is how many requests a second one address may send; 0: any number.
	ClientRate float64
	// Warn receives what New finds damaged and can do without; may be nil.
	Warn func(error)
}

const (
	maxJSON     = 32 << 20         // bytes of a request to the API, with inline data
	maxMetadata = 256 << 10        // bytes of a registration
	maxInflated = 1 << 30          // bytes of an object, decompressed
	maxSkew     = 15 * time.Minute // between a signature's time and now
)

// Receiver serves the requests. It is safe for concurrent use.
type Receiver struct {
	conf   Config
	store  *store
	keys   keyring
	tokens atomic.Pointer[[]TokenHash]
	limits *limits
}

var nameOfBucket = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// Close ends the Receiver and unlocks its directory. It waits 10 s for the requests in
// progress; if some remain, the directory stays locked.
func (rc *Receiver) Close() error {
	if !rc.limits.end() {
		return fmt.Errorf("requests are still in progress %s after the end: the receiver's directory stays locked until this process ends", maxWait)
	}
	return rc.store.close()
}

// New opens the store and returns a Receiver. No other Receiver may use its directory. It
// removes temporary files that a crash has left.
func New(c Config) (*Receiver, error) {
	setDefault(&c.Bucket, "rt")
	setDefault(&c.Prefix, "runs")
	setDefault(&c.Region, "eu-central-1")
	setDefault(&c.CredentialLife, time.Hour)
	setDefault(&c.MaxObject, 64<<20)
	setDefault(&c.MaxRequests, 256)
	if c.Warn == nil {
		c.Warn = func(error) {}
	}
	switch {
	case len(c.Tokens) == 0:
		return nil, errors.New("the receiver needs at least one token: without it no client can register a run")
	case !nameOfBucket.MatchString(c.Bucket) || c.Bucket == "runs":
		return nil, fmt.Errorf("the receiver's bucket %q: lower-case letters, digits and hyphens, and not \"runs\"", c.Bucket)
	case strings.Trim(c.Prefix, "/") != c.Prefix || strings.Contains(c.Prefix, ".."):
		return nil, fmt.Errorf("the receiver's prefix %q: no slashes at its ends and no dots in a row", c.Prefix)
	case c.Dialect != "" && c.Dialect != upload.DialectSpec && c.Dialect != upload.DialectLive:
		return nil, fmt.Errorf("the receiver's dialect %q: it must be spec, live or empty", c.Dialect)
	}
	s, err := openStore(c.Dir, c.Warn)
	if err != nil {
		return nil, err
	}
	master, err := s.masterKey()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	rc := &Receiver{conf: c, store: s, keys: keyring{master: master}, limits: newLimits(c.MaxRequests, c.ClientRate)}
	rc.SetTokens(c.Tokens)
	return rc, nil
}

// setDefault sets a value that is empty, zero or negative.
func setDefault[T cmp.Ordered](v *T, def T) {
	var zero T
	if *v <= zero {
		*v = def
	}
}

// SetTokens replaces the tokens that are accepted, from the next request on. Credentials for
// uploads that were issued for an old token stay valid until they expire.
func (rc *Receiver) SetTokens(tokens []TokenHash) { rc.tokens.Store(&tokens) }

// ServeHTTP implements http.Handler.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rc.limits.limited(w, r, rc.serve)
}

func (rc *Receiver) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	// Not a ServeMux: it would redirect keys that are not clean paths.
	if strings.HasPrefix(r.URL.Path, "/"+rc.conf.Bucket+"/") {
		rc.serveObject(w, r)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	if parts[0] != "runs" || len(parts) > 3 {
		fail(w, http.StatusNotFound, "there is nothing at this path")
		return
	}
	if !authorised(r, *rc.tokens.Load()) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		fail(w, http.StatusUnauthorized, "the token is missing or not known here")
		return
	}
	rc.serveAPI(w, r, parts[1:])
}

func (rc *Receiver) serveAPI(w http.ResponseWriter, r *http.Request, path []string) {
	route := r.Method
	if len(path) > 0 {
		route += " {id}"
	}
	if len(path) > 1 {
		route += " " + path[1]
	}
	if len(path) > 0 && !rc.store.exists(path[0]) {
		fail(w, http.StatusNotFound, "there is no such run")
		return
	}
	var err error
	switch route {
	case "POST":
		err = rc.register(w, r)
	case "GET":
		err = rc.list(w, r)
	case "GET {id}":
		err = rc.show(w, path[0])
	case "GET {id} data":
		err = rc.data(w, path[0])
	case "POST {id} refresh-credentials":
		rc.refresh(w, path[0])
	case "POST {id} finish":
		err = rc.finish(w, r, path[0])
	default:
		err = refuse(http.StatusNotFound, "there is nothing at this path for %s", r.Method)
	}
	if err != nil {
		failWith(w, err)
	}
}

// reply writes a JSON answer.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client has closed the connection
}

// fail writes an error as JSON: {"detail": "..."}.
func fail(w http.ResponseWriter, status int, detail string) {
	reply(w, status, map[string]string{"detail": detail})
}

// problem is an error with the status of its answer and, for S3, its code.
type problem struct {
	status       int
	code, detail string
}

func (p *problem) Error() string { return p.detail }

func refuse(status int, format string, args ...any) error {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

// failWith answers with the error, with 500 if it is the store's.
func failWith(w http.ResponseWriter, err error) {
	if p, ok := errors.AsType[*problem](err); ok {
		fail(w, p.status, p.detail)
		return
	}
	fail(w, http.StatusInternalServerError, "the receiver cannot write or read its store: "+storeFault(err))
}

// Serve answers requests on the listener until the context ends; then it waits for the
// requests in progress, for at most grace. faults logs errors below HTTP (mostly of
// handshakes) and may be nil.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, grace time.Duration, faults *log.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute,
		WriteTimeout:      5 * time.Minute,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          faults,
	}
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- fmt.Errorf("internal error, please report it; the listener is closed: %v\n%s", p, debug.Stack())
			}
		}()
		ended <- srv.Serve(ln)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(late)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
