package api

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/resource-tracker/rt/site"
)

// isPage reports whether a request is for a page. A PUT of /nodes is not.
func (s *readers) isPage(r *http.Request) bool {
	return s.conf.Pages != nil && s.conf.Pages.Has(r)
}

// servePage answers a request for a page, within the limits of the reading API.
func (s *readers) servePage(w http.ResponseWriter, r *http.Request) error {
	pages := s.conf.Pages
	if pages.IsOpen(r) {
		return s.serveOpen(w, r)
	}
	if secret := pages.ShareOf(r); secret != "" && s.conf.Readers != nil {
		return s.serveShared(w, r, secret)
	}
	reader, err := s.readerOf(w, r)
	var p *problem
	isUnknown := errors.As(err, &p) && p.status == http.StatusUnauthorized
	if isUnknown {
		ways := s.conf.Readers.Ways()
		hasOthers := ways.Munge || ways.SSO
		if hasOthers && !pages.WantsToken(r) {
			answeredOf(r).Refusal = p.detail
			pages.ServeKnock(w, r, ways)
			return nil
		}
		// A browser then asks for a name and a password.
		w.Header().Add("WWW-Authenticate", `Basic realm="rt", charset="UTF-8"`)
		return refuse(http.StatusUnauthorized, "%s; in a browser, load this page again and enter any name and, as the password, a read token", p.detail)
	}
	if err != nil {
		return err
	}
	leave, err := s.admit(r, reader)
	if err != nil {
		return err
	}
	defer leave()
	answeredOf(r).Refusal = pages.ServePage(&pacedWriter{ResponseWriter: w}, r, reader)
	return nil
}

// failPage answers with the error as a text, for a person.
func (s problems) failPage(w http.ResponseWriter, r *http.Request, err error) {
	p := s.problemOf(err)
	answeredOf(r).Refusal = p.detail
	p.header(w.Header())
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(p.status)
	_, _ = io.WriteString(w, p.detail+"\n") // the client has closed the connection
}

// admit waits until a request of a reader may be answered. It returns the function to call after that.
func (s *readers) admit(r *http.Request, reader site.Reader) (leave func(), err error) {
	done, err := takeUnits(r.Context(), s.limits.open, reader.Name, 1)
	if err != nil {
		return nil, err
	}
	read, err := takeUnits(r.Context(), s.limits.reads, reader.Name, 1)
	if err != nil {
		done()
		return nil, err
	}
	return func() {
		read()
		done()
	}, nil
}

// withToken returns the request with the password of Basic authentication as its token. Browsers cannot
// send a token in another way. The name of the user is ignored.
func withToken(r *http.Request) *http.Request {
	_, password, isBasic := r.BasicAuth()
	if !isBasic {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+password)
	return r
}

// OpenRecord opens the complete record of a run. The caller has checked that the reader may see the run.
func (s *Server) OpenRecord(ctx context.Context, runID string) (io.ReadCloser, error) {
	_, content, err := s.readers.openRecord(ctx, runID)
	return content, err
}
