package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/resource-tracker/rt/site"
)

// S3 stores objects in a bucket of Amazon S3, MinIO, Ceph or another store with that API.
type S3 struct {
	client         minio.Core
	bucket, prefix string // the prefix is empty or ends with "/"
}

// S3Config is the access to a bucket.
type S3Config struct {
	Location  string // s3://bucket or s3://bucket/prefix
	Endpoint  string // base URL of the store, https://host:port; empty: Amazon's
	Region    string // empty: the store's answer
	AccessKey string
	SecretKey string
	Session   string            // session token of temporary credentials, or empty
	Transport http.RoundTripper // nil: minio-go's default, with the certificates of the system
}

// s3Tries limits how often a request without a body is sent that the store does not answer, or
// refuses for the moment. The waits in between are at most 200 ms, 400 ms, 800 ms and 1 s.
const s3Tries = 5

// NewS3 returns the access to a bucket. It does not connect; Check does.
func NewS3(c S3Config) (*S3, error) {
	bucket, prefix, err := splitLocation(c.Location)
	if err != nil {
		return nil, err
	}
	endpoint := c.Endpoint
	if endpoint == "" {
		endpoint = "https://s3.amazonaws.com"
	}
	u, err := url.Parse(endpoint)
	if err != nil { // its text has the endpoint, which may have a password
		return nil, errors.New("the endpoint of the object store is not a URL of the form https://host:port")
	}
	isBase := u.Host != "" && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && u.User == nil
	isHTTP := u.Scheme == "http" || u.Scheme == "https"
	if !isBase || !isHTTP {
		return nil, errors.New("the endpoint of the object store is not of the form https://host:port")
	}
	isSecure := u.Scheme == "https"
	transport := c.Transport
	if transport == nil {
		transport, err = minio.DefaultTransport(isSecure)
		if err != nil {
			return nil, fmt.Errorf("the object store %s: read the certificates of the system: %w", endpoint, err)
		}
	}
	client, err := minio.NewCore(u.Host, &minio.Options{
		Creds:      credentials.NewStaticV4(c.AccessKey, c.SecretKey, c.Session),
		Secure:     isSecure,
		Transport:  unredirected{transport},
		Region:     c.Region,
		MaxRetries: s3Tries,
	})
	if err != nil {
		return nil, fmt.Errorf("the object store %s: %w", endpoint, err)
	}
	return &S3{*client, bucket, prefix}, nil
}

// unredirected fails an upload that the store redirects. If http.Client gets the redirect, it closes the
// body while the transport may close it too, which minio-go's body with a signature does not allow.
type unredirected struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u unredirected) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.RoundTripper.RoundTrip(r)
	isRedirect := err == nil && resp.StatusCode/100 == 3
	if isRedirect && r.Method == http.MethodPut {
		_ = resp.Body.Close() // it says nothing more
		return nil, fmt.Errorf("the store redirects the upload (%s): check the endpoint and the region", resp.Status)
	}
	return resp, err
}

// splitLocation returns the bucket and the prefix of s3://bucket/prefix.
func splitLocation(location string) (bucket, prefix string, err error) {
	rest, isS3 := strings.CutPrefix(location, "s3://")
	bucket, prefix, _ = strings.Cut(rest, "/")
	prefix = strings.TrimSuffix(prefix, "/")
	if !isS3 || bucket == "" {
		return "", "", fmt.Errorf("%q is not of the form s3://bucket/prefix", location)
	}
	if prefix == "" {
		return bucket, "", nil
	}
	if err := checkName(prefix); err != nil {
		return "", "", fmt.Errorf("%s: the prefix: %w", location, err)
	}
	return bucket, prefix + "/", nil
}

// Check reports whether the store answers and has the bucket.
func (s *S3) Check(ctx context.Context) error {
	there, err := s.client.BucketExists(ctx, s.bucket)
	if err != nil {
		return s.explain("look up", "", err)
	}
	if !there {
		return fmt.Errorf("the object store %s has no bucket %s: create it", s.client.EndpointURL(), s.bucket)
	}
	return nil
}

// Region returns the region for which requests are signed.
func (s *S3) Region(ctx context.Context) (string, error) {
	region, err := s.client.GetBucketLocation(ctx, s.bucket)
	return region, s.explain("look up the region of", "", err)
}

// Put stores the bytes of body, which must have the given size, under a name. They are durable when
// Put returns nil, as far as the store keeps its promise. Otherwise the name has the earlier
// object, or these bytes if the answer was lost. Put replaces an object of the same name. It sends
// one request. After an error the client of the site service tries again.
func (s *S3) Put(ctx context.Context, name string, size int64, body io.Reader) error {
	if err := checkName(name); err != nil {
		return err
	}
	whole, err := exactly(body, size)
	if err != nil {
		return fmt.Errorf("store object %s: %w", name, err)
	}
	lent := &borrowed{body: whole}
	defer lent.end()
	// An upload in parts that is interrupted leaves parts.
	o := minio.PutObjectOptions{DisableMultipart: true, ContentType: "application/octet-stream"}
	_, err = s.client.Client.PutObject(ctx, s.bucket, s.prefix+name, lent, size, o)
	return s.explain("store", name, err)
}

// borrowed is a body that is read until end returns: http.Transport may read the body of a
// request after it has returned the answer.
type borrowed struct {
	mu   sync.Mutex
	body io.Reader // nil after the end
}

func (b *borrowed) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.body == nil {
		return 0, io.ErrClosedPipe
	}
	return b.body.Read(p)
}

func (b *borrowed) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.body = nil
}

// Get opens an object. The error is site.ErrNotFound if there is none.
func (s *S3) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	body, _, _, err := s.client.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.explain("read", name, err)
	}
	return body, nil
}

// Delete removes an object. An absent object is no error.
func (s *S3) Delete(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	err := s.explain("delete", name, s.client.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, site.ErrNotFound) {
		return nil
	}
	return err
}

// List returns the objects with names that begin with prefix, in no particular order. An
// iteration that yields an error ends.
func (s *S3) List(ctx context.Context, prefix string) iter.Seq2[site.Stored, error] {
	return func(yield func(site.Stored, error) bool) {
		if err := checkPrefix(prefix); err != nil {
			yield(site.Stored{}, fmt.Errorf("list the objects: %w", err))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		o := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
		for i := range s.client.ListObjectsIter(ctx, s.bucket, o) {
			if i.Err != nil {
				yield(site.Stored{}, s.explain("list", prefix, i.Err))
				return
			}
			name := strings.TrimPrefix(i.Key, s.prefix)
			if checkName(name) != nil {
				continue // of another program
			}
			if !yield(site.Stored{Name: name, Bytes: i.Size, Modified: i.LastModified}, nil) {
				return
			}
		}
		if ctx.Err() != nil {
			yield(site.Stored{}, fmt.Errorf("list the objects: %w", context.Cause(ctx)))
		}
	}
}

// explain adds to an error of the store what was tried, and its meaning for the site service.
func (s *S3) explain(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	what := verb + " s3://" + s.bucket + "/" + s.prefix + name
	answer, _ := errors.AsType[minio.ErrorResponse](err)
	switch answer.Code {
	case minio.NoSuchKey:
		return fmt.Errorf("%s: %w", what, site.ErrNotFound)
	case "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded": // the last one is Ceph's
		return fmt.Errorf("%s: %w: %w", what, site.ErrFull, err)
	}
	if answer.StatusCode == http.StatusInsufficientStorage {
		return fmt.Errorf("%s: %w: %w", what, site.ErrFull, err)
	}
	if isAway(err, answer.StatusCode) {
		return fmt.Errorf("%s: %w: %w", what, site.ErrAway, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// isAway reports whether the store does not answer, or not for the moment. status comes from its
// answer, 0 without one.
func isAway(err error, status int) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	_, isNetwork := errors.AsType[*net.OpError](err)
	late, isError := errors.AsType[net.Error](err)
	isLate := isError && late.Timeout()
	isCut := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	return isNetwork || isLate || isCut || status >= http.StatusInternalServerError
}
