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
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

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
	// MaxRequests with a complete body are served at the same time, a quarter of them for one
	// token; others wait. 256 when 0.
	MaxRequests int
	// ClientRate is how many requests a second one address may send; 0: any number.
	ClientRate float64
	// TokenRate limits the bodies of one token, in bytes per second on average; 0 means no limit.
	TokenRate int64
	// Quota and TokenQuota limit the disk space in bytes: of all runs with the journal, and of the
	// runs of one token. 0 means no limit.
	Quota, TokenQuota int64
	// Warn receives what New finds damaged and can do without; may be nil.
	Warn func(error)
}

const (
	maxFinish   = 8 << 20          // bytes of a finish, with inline data
	maxMetadata = 256 << 10        // bytes of a registration
	maxInline   = 64 << 20         // bytes of inline data, decompressed
	maxInflated = 1 << 30          // bytes of an object, decompressed
	maxRows     = 10_000_000       // of an object or of inline data
	maxObjects  = 1 << 15          // of a run
	maxSkew     = 15 * time.Minute // between a signature's time and now
)

// Receiver serves the requests. It is safe for concurrent use.
type Receiver struct {
	conf   Config
	store  *store
	keys   keyring
	tokens atomic.Pointer[[]knownToken]
	limits *limits
}

var nameOfBucket = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// Close ends the Receiver and unlocks its directory. It waits 10 s for the requests in
// progress; if some remain, the directory stays locked.
func (rc *Receiver) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	if !rc.limits.open.end(ctx) {
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
	s, err := openStore(c.Dir, newQuota(c.Quota, c.TokenQuota), c.Warn)
	if err != nil {
		return nil, err
	}
	master, err := s.masterKey()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	rc := &Receiver{conf: c, store: s, keys: keyring{master: master}, limits: newLimits(c)}
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
func (rc *Receiver) SetTokens(tokens []TokenHash) {
	known := make([]knownToken, len(tokens))
	for i, hash := range tokens {
		known[i] = knownToken{hash, rc.keys.owner(hash)}
	}
	rc.tokens.Store(&known)
}

// ServeHTTP implements http.Handler.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	address, now := addressOf(r.RemoteAddr), time.Now()
	if wait := rc.limits.rate.early(address, now); wait > 0 {
		failWith(w, tooFast(wait, "requests (serve.client_rate)"))
		return
	}
	rc.limits.rate.count(address, 1, now)
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
	owner, ok := authorised(r, *rc.tokens.Load())
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		fail(w, http.StatusUnauthorized, "the token is missing or not known here")
		return
	}
	if err := rc.serveAPI(w, r, owner, parts[1:]); err != nil {
		failWith(w, err)
	}
}

func (rc *Receiver) serveAPI(w http.ResponseWriter, r *http.Request, owner string, path []string) error {
	leave, err := take(r.Context(), rc.limits.open, owner, 1)
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
	if len(path) > 0 && !rc.store.exists(path[0]) {
		return refuse(http.StatusNotFound, "there is no such run")
	}
	if r.Method == http.MethodGet {
		leave, err := take(r.Context(), rc.limits.reads, owner, 1)
		if err != nil {
			return err
		}
		defer leave()
		w = &pacedWriter{ResponseWriter: w}
	}
	t := turn{r.Context(), owner, rc.limits.cpu}
	switch route {
	case "POST":
		return rc.withBody(w, r, owner, maxMetadata, func(body []byte) error { return rc.register(w, t, body) })
	case "GET":
		return rc.list(w, r, t)
	case "GET {id}":
		return rc.show(w, t, path[0])
	case "GET {id} data":
		return rc.data(w, t, path[0])
	case "POST {id} refresh-credentials":
		rc.refresh(w, owner, path[0])
		return nil
	case "POST {id} finish":
		return rc.withBody(w, r, owner, maxFinish, func(body []byte) error { return rc.finish(w, t, path[0], body) })
	}
	return refuse(http.StatusNotFound, "there is nothing at this path for %s", r.Method)
}

// withBody calls next with the whole body of a request, while the request holds units of work.
func (rc *Receiver) withBody(w http.ResponseWriter, r *http.Request, owner string, limit int64, next func(body []byte) error) error {
	b, err := rc.arrive(w, r, owner, limit, io.Discard)
	if err != nil {
		return bodyError(err, limit)
	}
	defer b.done()
	leave, err := take(r.Context(), rc.limits.work, owner, b.work())
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
	retry        time.Duration // when the client may send it again, in Retry-After; 0 for no such header
	undone       bool          // the request changed nothing: HeaderUndone
}

func (p *problem) Error() string { return p.detail }

// header writes the fields of the problem that are headers.
func (p *problem) header(h http.Header) {
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	if p.undone {
		h.Set(upload.HeaderUndone, "1")
	}
}

func refuse(status int, format string, args ...any) error {
	return &problem{status: status, detail: fmt.Sprintf(format, args...)}
}

// problemOf returns the answer to an error: its own, 507 for a full disk, 500 for another error
// of the store.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	detail := "the receiver cannot write or read its store: " + storeFault(err)
	if isFull(err) {
		return &problem{status: http.StatusInsufficientStorage, code: "InsufficientStorage", detail: detail, retry: retryFull}
	}
	return &problem{status: http.StatusInternalServerError, code: "InternalError", detail: detail}
}

// isFull reports whether an error says that the disk, or the disk quota of the user, is full.
func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// failWith answers with the error as JSON.
func failWith(w http.ResponseWriter, err error) {
	p := problemOf(err)
	p.header(w.Header())
	fail(w, p.status, p.detail)
}

// Serve answers requests on the listener until the context ends; then it waits for the
// requests in progress, for at most grace. faults logs errors below HTTP (mostly of
// handshakes) and may be nil.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, grace time.Duration, faults *log.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // a body that is read has deadlines of its own, see paced
		WriteTimeout:      writeTimeout,     // and so has a long answer, see pacedWriter
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          faults,
		ConnState:         (&connections{of: map[string]int{}}).state,
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
