package api

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Answered is a request and its answer, without tokens and credentials. Method, URI and Refusal can have any characters.
type Answered struct {
	Begin    time.Time
	Client   string // address of the connection; "unix" for a Unix socket
	Network  string // Client, or its network of 64 bits, as the limits count it
	Sender   string // the user, or else the read token's or the owner's name; empty if it is not known
	Method   string
	URI      string // without the values of parameters that are not known, at most maxURI bytes
	Proto    string
	Status   int   // 0: the connection ended before the answer
	Bytes    int64 // of the body of the answer
	Duration time.Duration
	Refusal  string // why the request was refused; empty if the answer does not say it
}

// maxURI limits Answered.URI.
const maxURI = 1000

// answeredKey is the key of the Answered of a request in its context.
type answeredKey struct{}

// Reporting returns a handler that calls report after each request to another one.
func Reporting(next http.Handler, report func(*Answered)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &Answered{
			Begin: time.Now(), Client: "unix", Network: "unix",
			Method: r.Method, URI: harmlessURI(r.URL), Proto: r.Proto,
		}
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
			a.Client, a.Network = host, addressOf(r.RemoteAddr)
		}
		answer := &countedAnswer{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			a.Bytes, a.Duration = answer.bytes, time.Since(a.Begin)
			report(a)
		}()
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), answeredKey{}, a)))
		a.Status = answer.status
	})
}

// answeredOf returns what is reported of a request; something that is not reported if there is no Reporting.
func answeredOf(r *http.Request) *Answered {
	if a, isReported := r.Context().Value(answeredKey{}).(*Answered); isReported {
		return a
	}
	return &Answered{}
}

// harmlessURI returns the path and the query. A parameter that the service does not know can be a secret, which a client
// put there by mistake: "..." takes its place.
func harmlessURI(u *url.URL) string {
	uri := u.EscapedPath()
	if u.RawQuery != "" {
		parts := strings.Split(u.RawQuery, "&")
		for i, part := range parts {
			name, _, hasValue := strings.Cut(part, "=")
			if !hasValue || !isParameter(name) {
				parts[i] = "..."
			}
		}
		uri += "?" + strings.Join(parts, "&")
	}
	if len(uri) > maxURI {
		uri = uri[:maxURI] + "..."
	}
	return uri
}

// isParameter reports whether the API or a page has a parameter of this name.
func isParameter(name string) bool {
	switch name {
	case "id", "generation", "show", "by", "sort", "after", "node":
		return true
	}
	_, isOfList := listParameters[name]
	return isOfList
}
