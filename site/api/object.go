package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// uploads serves the PUT of S3.
type uploads struct {
	conf     *Config
	owners   *owners
	names    keyNames
	bodies   bodies
	blobs    blobs
	problems problems
}

// serveObject answers a path-style S3 request. It supports PUT only.
func (s *uploads) serveObject(w http.ResponseWriter, r *http.Request) {
	err := s.putObject(w, r)
	if err == nil {
		w.WriteHeader(http.StatusOK)
		return
	}
	p := s.problems.problemOf(err)
	answeredOf(r).Refusal = p.detail
	p.header(w.Header())
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(p.status)
	type answer struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}
	_ = xml.NewEncoder(w).Encode(answer{Code: cmp.Or(p.code, "OperationAborted"), Message: p.detail}) // the client has closed the connection
}

// invalid is an error of a PUT with S3's code for it.
func invalid(status int, code, detail string) error {
	return &problem{status: status, code: code, detail: detail}
}

func (s *uploads) putObject(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPut {
		return invalid(405, "MethodNotAllowed", "only PUT is supported")
	}
	req, err := s.verify(r, time.Now())
	if err != nil {
		return err
	}
	answeredOf(r).Sender = req.owner
	leave, err := takeUnits(r.Context(), s.bodies.limits.open, req.owner, 1)
	if err != nil {
		return err
	}
	defer leave()
	key := strings.TrimPrefix(r.URL.Path, "/"+bucket+"/")
	name, ok := s.names.objectName(req.runID, key)
	switch {
	case hasDots(key):
		return invalid(400, "InvalidRequest", "the key has . or .. as a part of its path")
	case !ok:
		return invalid(403, "AccessDenied", "the credentials are for keys below "+prefix+"/"+req.runID+"/")
	case r.URL.RawQuery != "":
		return invalid(501, "NotImplemented", "sub-resources are not supported")
	case r.ContentLength < 0:
		return invalid(411, "MissingContentLength", "Content-Length is missing")
	}
	sum := sha256.New()
	b, err := s.bodies.arrive(w, r, req.owner, s.conf.MaxObject, sum)
	if errors.As(err, new(*http.MaxBytesError)) { // 400 is S3's status for it
		return invalid(400, "EntityTooLarge", tooLong(s.conf.MaxObject))
	}
	if err != nil {
		return bodyError(err, s.conf.MaxObject)
	}
	defer b.done()
	if hex.EncodeToString(sum.Sum(nil)) != req.payload {
		return invalid(400, "XAmzContentSHA256Mismatch", "the body is not the one that was signed")
	}
	done, err := takeUnits(r.Context(), s.bodies.limits.work, req.owner, b.work())
	if err != nil {
		return err
	}
	defer done()
	o := site.Object{RunID: req.runID, Name: name, Bytes: b.size, SHA256: req.payload, Created: time.Now().UTC()}
	t := turn{r.Context(), req.owner, s.bodies.limits.cpu}
	if s.names.isRecord(name) {
		o.Signed = req.at
		return s.keepRecord(t, b, o)
	}
	return s.keepCSV(t, b, o)
}

func tooLong(limit int64) string {
	return fmt.Sprintf("the body is too long: it may have %d bytes", limit)
}

// keepCSV checks an upload and stores it. The objects of a finished run never change.
func (s *uploads) keepCSV(t turn, b *body, o site.Object) error {
	err := inspect(t, b, inflatedLimit(b.size, maxInflated), io.Discard, &o)
	if errors.Is(err, errNoGzip) || errors.Is(err, errNoCSV) {
		return invalid(400, "InvalidRequest", err.Error())
	}
	if err != nil {
		return err
	}
	o.Class = site.ClassCSV
	return s.blobs.keep(t.ctx, b, o, nil)
}

// keepRecord stores the complete record of a run. A newer one replaces it at any time.
func (s *uploads) keepRecord(t turn, b *body, o site.Object) error {
	var run rt.Run
	err := t.do(func() (err error) {
		run, err = s.conf.RunOf(b)
		if err != nil {
			return err
		}
		return site.CheckRecordRun(&run)
	})
	_, isDisk := errors.AsType[*fs.PathError](err)
	isUndecided := isDisk || t.ctx.Err() != nil // nothing was said about the record
	if err != nil && isUndecided {
		return err
	}
	if errors.Is(err, site.ErrNewer) { // the node keeps the run until the receiver is upgraded
		return &problem{
			status: http.StatusServiceUnavailable, code: "ServiceUnavailable", retry: retryNewer, undone: true,
			detail: "upgrade the receiver before the nodes: " + err.Error(),
		}
	}
	if err != nil {
		return invalid(400, "InvalidRequest", err.Error())
	}
	if site.IsOwnerOfUser(t.client) {
		if err := s.limitToUser(t.client, &run); err != nil {
			return err
		}
	}
	o.Class = site.ClassRecord
	return s.blobs.keep(t.ctx, b, o, &run)
}

// limitToUser refuses the record of a run that the token of a user may not send. Only a node knows
// what a whole job did, and who its user is. The account, which the user can set, is left out.
func (s *uploads) limitToUser(owner string, run *rt.Run) error {
	isOfJob := run.JobID.Valid() || run.ArrayJobID.Valid() || run.HetJobID.Valid()
	user := s.owners.userOf(owner)
	isOwn := user != "" && run.User == user
	switch {
	case !isOwn:
		return invalid(400, "InvalidRequest", "the token is for runs of one user, and the record is of another one")
	case isOfJob && run.Step == "":
		return invalid(400, "InvalidRequest", "the token of a user is for runs of steps, and the record is of a whole job")
	}
	run.Account = ""
	return nil
}

// blobs stores and removes the bytes of objects.
type blobs struct {
	runs    *registry.Runs
	objects site.ObjectStore
}

// keep stores an object: a small one in the registry, a larger one in the object store before the
// registry names it. It does not stop when the client does: bytes in the object store without a row are
// in no quota.
func (s blobs) keep(ctx context.Context, b *body, o site.Object, record *rt.Run) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	var content []byte
	var err error
	if b.size <= site.MaxRow {
		content, err = b.content()
	} else {
		err = s.store(ctx, &o, io.NewSectionReader(b.file, 0, b.size))
	}
	if err != nil {
		return err
	}
	replaced, err := s.runs.PutObject(ctx, o, content, record)
	if err == nil {
		s.discard(ctx, replaced)
	} else if isRefused(err) {
		s.discard(ctx, o.Stored)
	}
	return err
}

// store puts the bytes of an object into the object store, under a new name. After an error it deletes what may be there.
func (s blobs) store(ctx context.Context, o *site.Object, content io.Reader) error {
	o.Stored = o.NewStoredName()
	err := s.objects.Put(ctx, o.Stored, o.Bytes, content)
	if err != nil {
		s.discard(ctx, o.Stored)
	}
	return err
}

// storeTime limits the change that stores a request.
const storeTime = time.Minute

// detached returns a context for the change that a request makes, which goes on if the client goes away.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), storeTime)
}

// discard deletes an object that no row names. If it cannot, Retain does.
func (s blobs) discard(ctx context.Context, stored string) {
	if stored == "" {
		return
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	_ = s.objects.Delete(ctx, stored)
}

// keyNames translates between keys of the bucket and names of objects.
type keyNames struct {
	hasRecords bool // runs have complete records
}

// objectName is the name of the object with a key below the run's prefix: the rest of the key, with
// escapes.
func (s keyNames) objectName(runID, key string) (string, bool) {
	rest, ok := strings.CutPrefix(key, prefix+"/"+runID+"/")
	name := url.PathEscape(rest)
	if !ok || rest == "" || len(name) > 250 || hasDots(key) || strings.Trim(rest, ".") == "" || name == site.InlineName {
		return "", false
	}
	return name, true
}

// hasDots reports whether an element of a path is . or .., which clients and stores resolve differently.
func hasDots(key string) bool {
	for element := range strings.SplitSeq(key, "/") {
		if element == "." || element == ".." {
			return true
		}
	}
	return false
}

// isRecord reports whether an object is the complete record of its run.
func (s keyNames) isRecord(name string) bool { return name == site.RecordName && s.hasRecords }

// key is the key of an object.
func (s keyNames) key(runID, name string) string {
	rest, err := url.PathUnescape(name)
	if err != nil {
		rest = name
	}
	return prefix + "/" + runID + "/" + rest
}

// objectOf is the name of the object with a URI of the run.
func (s keyNames) objectOf(runID, uri string) (string, bool) {
	return s.objectName(runID, strings.TrimPrefix(uri, "s3://"+bucket+"/"))
}
