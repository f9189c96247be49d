// Package page serves the pages of a site for people: a first page, jobs, users, accounts and nodes, and the report of
// a job. They work without their script. All links are relative, so that a proxy can serve the site below any path.
package page

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/auth"
	"github.com/resource-tracker/rt/site/registry"
	sitereport "github.com/resource-tracker/rt/site/report"
)

// Config of Pages.
type Config struct {
	Registry *registry.Registry
	// Report writes the report of a job, from the complete records of its runs; nil: there are none. An error that wraps
	// site.ErrNoReport or site.ErrBusy is shown to the reader.
	Report       func(ctx context.Context, w io.Writer, r site.Report) error
	Sessions     *auth.Sessions // let browsers in; nil: no browser has a session
	ReportPolicy string         // the Content-Security-Policy of an HTML report
	PartPolicy   string         // the sources of style and scripts of a report that is a part of a page
	Name         string         // of the site
	Logo         []byte         // an image; empty: none
	Colors       report.Colors  // from when on use is wasteful or harmful
	Fault        func(error)    // receives the errors of the registry and of the reports
}

// Pages serves the pages.
type Pages struct {
	conf       Config
	found      sitereport.Jobs
	logo       asset
	searchTime time.Duration
}

// New returns Pages.
func New(c Config) *Pages {
	p := &Pages{conf: c, found: sitereport.Jobs{Registry: c.Registry, Write: c.Report, Fault: c.Fault}, searchTime: searchTime}
	if len(c.Logo) > 0 {
		kind := http.DetectContentType(c.Logo)
		if !strings.HasPrefix(kind, "image/") {
			kind = "image/svg+xml"
		}
		p.logo = newAsset(kind, string(c.Logo))
	}
	return p
}

// policy allows what the pages have: the style, the script and the logo of the site, and the images in Bootstrap's style.
const (
	policy      = "default-src 'none'; style-src 'self'; script-src 'self'; " + otherPolicy
	otherPolicy = "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

//go:embed *.html.tmpl style.css page.js bootstrap
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{"meter": meter}).ParseFS(files, "*.html.tmpl"))

// errBadRequest is a parameter that is wrong; errAbsent is a page or a job that is not there for the reader.
var (
	errBadRequest = errors.New("bad request")
	errAbsent     = errors.New("there is nothing at this address that you may see")
)

func badRequest(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errBadRequest, fmt.Errorf(format, args...))
}

// request is the request of a reader.
type request struct {
	*http.Request
	reader site.Reader
	access *site.Access
	share  string // secret of the share that the reader has; empty for others
}

// routes are the pages. They are all in one directory, so that relative links work on each of them.
var routes = map[string]func(p *Pages, w http.ResponseWriter, r request) error{
	"":             (*Pages).home,
	"find":         (*Pages).lookUp,
	"jobs":         (*Pages).jobs,
	"jobs.csv":     (*Pages).jobsFile,
	"job":          (*Pages).job,
	"compare":      (*Pages).compare,
	"report.html":  (*Pages).reportFile,
	"report.json":  (*Pages).reportFile,
	"users":        totalsOf(site.ByUser, false),
	"users.csv":    totalsOf(site.ByUser, true),
	"accounts":     totalsOf(site.ByAccount, false),
	"accounts.csv": totalsOf(site.ByAccount, true),
	"nodes":        (*Pages).nodes,
	"nodes.csv":    (*Pages).nodesFile,
	stylePath:      (*Pages).serveAsset,
	scriptPath:     (*Pages).serveAsset,
	licensesPath:   (*Pages).serveAsset,
	logoPath:       (*Pages).serveAsset,
}

// ServePage answers a request of a reader; of no one if the page is open. It returns why the request was refused.
func (p *Pages) ServePage(w http.ResponseWriter, r *http.Request, reader site.Reader) (refusal string) {
	referrer := "same-origin"
	if _, isDoor := doors[nameOf(r)]; isDoor {
		// Its address may have a secret. With no-referrer its forms would have the Origin null, which is refused.
		referrer = "strict-origin"
	}
	setHeaders(w, referrer)
	return p.serve(w, request{r, reader, reader.Access(), ""})
}

func setHeaders(w http.ResponseWriter, referrer string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", referrer)
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func (p *Pages) serve(w http.ResponseWriter, r request) (refusal string) {
	serve := routes[nameOf(r.Request)]
	if serve == nil {
		serve = doors[nameOf(r.Request)].serve
	}
	err := errAbsent
	if serve != nil {
		err = serve(p, w, r)
	}
	if err == nil {
		return ""
	}
	return p.fail(w, r.Request, r.reader, err)
}

// fail answers with a page that describes an error, and returns its text.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, reader site.Reader, err error) (text string) {
	if r.Context().Err() != nil {
		return ""
	}
	status, text := p.Answer(r, err)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	_ = p.frame(r, reader, "No page").withProblem(text).write(w, status, "problem.html.tmpl", nil) // the client has closed the connection
	return text
}

// Answer returns the status of an error, and its text for a person. Fault gets an error that is not the reader's.
func (p *Pages) Answer(r *http.Request, err error) (status int, text string) {
	switch {
	case errors.Is(err, errBadRequest):
		return http.StatusBadRequest, strings.TrimPrefix(err.Error(), errBadRequest.Error()+": ")
	case errors.Is(err, site.ErrCursor):
		return http.StatusBadRequest, "The link to this part of the list is not valid: begin with the first page."
	case errors.Is(err, errAbsent):
		return http.StatusNotFound, "There is nothing at this address that you may see."
	case errors.Is(err, site.ErrNoReport):
		return http.StatusNotFound, reasonOf(err)
	case errors.Is(err, auth.ErrRefused):
		return http.StatusForbidden, err.Error()
	case errors.Is(err, site.ErrTooManySessions):
		return http.StatusForbidden, "You have too many sessions and links: revoke some, or ask the administrators of the site."
	case errors.Is(err, site.ErrBusy):
		return http.StatusServiceUnavailable, "Other reports are being made: try again in a few seconds."
	}
	p.conf.Fault(fmt.Errorf("make the page %s: %w", r.URL.Path, err))
	if errors.Is(err, auth.ErrProvider) {
		return http.StatusServiceUnavailable, "The login service of the site does not answer: try again later."
	}
	return http.StatusInternalServerError, "The service has an internal error. Its log describes it; try again later."
}

func (p *Pages) redirect(w http.ResponseWriter, _ request) error {
	return seeOther(w, "jobs")
}
