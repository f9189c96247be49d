package api

import (
	"net/http"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/page"
)

// linksPath is the path at which rt-job gets a link into the pages, and a link that shares a job.
const linksPath = "links"

func (s *readers) isLinks(r *http.Request) bool {
	return s.conf.Pages != nil && r.URL.Path == "/"+linksPath
}

// serveLinks answers POST /links of a reader.
func (s *readers) serveLinks(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refuse(http.StatusMethodNotAllowed, "only POST is possible here")
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
	made, err := s.conf.Pages.NewLink(r, reader)
	if err != nil {
		status, text := s.conf.Pages.Answer(r, err)
		return refuse(status, "%s", text)
	}
	reply(w, http.StatusOK, made)
	return nil
}

// serveOpen answers a request for a page that needs no reader.
func (s *readers) serveOpen(w http.ResponseWriter, r *http.Request) error {
	leave, err := takeUnits(r.Context(), s.limits.open, "address:"+addressOf(r.RemoteAddr), 1)
	if err != nil {
		return err
	}
	defer leave()
	answeredOf(r).Refusal = s.conf.Pages.ServePage(w, r, site.Reader{})
	return nil
}

// serveShared answers a request with the secret of a share.
func (s *readers) serveShared(w http.ResponseWriter, r *http.Request, secret string) error {
	reader, shown, err := s.conf.Readers.Shared(r, secret)
	if page.IsRefusal(err) {
		answeredOf(r).Refusal = err.Error()
		s.conf.Pages.ServeProblem(w, r, err)
		return nil
	}
	if err != nil {
		return s.notIdentified(w, err)
	}
	leave, err := s.admit(r, reader)
	if err != nil {
		return err
	}
	defer leave()
	answeredOf(r).Sender = reader.Name
	answeredOf(r).Refusal = s.conf.Pages.ServeShared(&pacedWriter{ResponseWriter: w}, r, reader, secret, shown)
	return nil
}
