package page

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/auth"
)

// door is a page that lets a browser in or out. Only a POST changes anything, apart from opening a link.
type door struct {
	serve  func(p *Pages, w http.ResponseWriter, r request) error
	isOpen bool // without a reader
	isPost bool // takes POST too
}

// doors are the doors, next to routes.
var doors = map[string]door{
	"enter":    {serve: (*Pages).enter, isOpen: true, isPost: true},
	"login":    {serve: (*Pages).login, isOpen: true},
	"callback": {serve: (*Pages).callback, isOpen: true},
	"logout":   {serve: (*Pages).logout, isOpen: true, isPost: true},
	tokenPage:  {serve: (*Pages).redirect},
	"share":    {serve: (*Pages).share, isPost: true},
}

// tokenPage is the page at which a browser asks for a read token.
const tokenPage = "token"

// sharedPages are the pages that the link of a share opens.
var sharedPages = []string{"job", "report.html", "report.json"}

// ShareOf returns the secret of a share in a request for a page that it can open; empty for none.
func (p *Pages) ShareOf(r *http.Request) string {
	isShown := r.Method == http.MethodGet && slices.Contains(sharedPages, nameOf(r))
	if !isShown {
		return ""
	}
	return r.URL.Query().Get("share")
}

func nameOf(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }

// Has reports whether a request is for one of the pages.
func (p *Pages) Has(r *http.Request) bool {
	_, isPage := routes[nameOf(r)]
	d, isDoor := doors[nameOf(r)]
	isDoor = isDoor && p.conf.Sessions != nil
	switch r.Method {
	case http.MethodGet:
		return isPage || isDoor
	case http.MethodHead:
		return isPage
	case http.MethodPost:
		return isDoor && d.isPost
	}
	return false
}

// IsOpen reports whether a page is for everyone.
func (p *Pages) IsOpen(r *http.Request) bool {
	return doors[nameOf(r)].isOpen || isAsset(nameOf(r))
}

// WantsToken reports whether a browser is to ask for a read token.
func (p *Pages) WantsToken(r *http.Request) bool { return nameOf(r) == tokenPage }

// enter begins the session of a link, for a person who has opened it in a browser. All others get a button. A preview
// of the link would use it up. A page of another site could open a link of its own user, so that this browser acts as that
// user. Without TLS browsers do not say who opens a link.
func (p *Pages) enter(w http.ResponseWriter, r request) error {
	secret := r.URL.Query().Get("link")
	isByPerson := r.Header.Get("Sec-Fetch-Site") == "none" && r.Header.Get("Sec-Purpose") == ""
	if r.Method != http.MethodPost && !isByPerson {
		return p.show(r, w, "enter", "Log in", secret)
	}
	page, err := p.conf.Sessions.Enter(w, r.Request, secret)
	if err != nil {
		return err
	}
	return leadTo(w, page)
}

// leadTo sends a browser to one of the pages, and to no other address.
func leadTo(w http.ResponseWriter, page string) error {
	to, err := url.Parse(page)
	isOurs := err == nil && to.Scheme == "" && to.Host == "" && to.Path != "" && routes[to.Path] != nil
	if !isOurs {
		page = "./" // the first page
	}
	w.Header().Set("Location", page)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// maxPage is the length of the longest address of a page to which a login leads.
const maxPage = 1000

// login sends a browser to the provider of single sign-on.
func (p *Pages) login(w http.ResponseWriter, r request) error {
	to := r.URL.Query().Get("to")
	if len(to) > maxPage {
		to = ""
	}
	if !p.conf.Sessions.HasSSO() {
		return errAbsent
	}
	address, err := p.conf.Sessions.BeginLogin(w, r.Request, to)
	if err != nil {
		return err
	}
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// callback begins the session of a browser that comes back from the provider of single sign-on.
func (p *Pages) callback(w http.ResponseWriter, r request) error {
	if !p.conf.Sessions.HasSSO() {
		return errAbsent
	}
	page, err := p.conf.Sessions.EndLogin(w, r.Request)
	if err != nil {
		return err
	}
	return leadTo(w, page)
}

func (p *Pages) logout(w http.ResponseWriter, r request) error {
	if r.Method == http.MethodGet {
		return p.show(r, w, "logout", "Log out", nil)
	}
	if err := p.conf.Sessions.End(w, r.Request); err != nil {
		return err
	}
	return leadTo(w, "")
}

// knock is the page for a browser that has not shown who it is.
type knock struct {
	auth.Ways
	Login string // address at which single sign-on begins
}

// ServeKnock answers a request without a reader with the ways in.
func (p *Pages) ServeKnock(w http.ResponseWriter, r *http.Request, ways auth.Ways) {
	setHeaders(w, "no-referrer")
	to := nameOf(r)
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	k := knock{ways, link("login", map[string]string{"to": to})}
	if err := p.frame(r, site.Reader{}, "Log in").write(w, http.StatusUnauthorized, "knock", k); err != nil {
		p.conf.Fault(err)
	}
}

// ServeShared answers a request with the secret of a share, for the page that the share shows. It returns why it was
// refused.
func (p *Pages) ServeShared(w http.ResponseWriter, r *http.Request, reader site.Reader, secret, page string) (refusal string) {
	setHeaders(w, "no-referrer")
	_, query, _ := strings.Cut(page, "?")
	at := *r.URL
	at.RawQuery = query
	shown := *r
	shown.URL = &at
	return p.serve(w, request{&shown, reader, reader.Access(), secret})
}

// ServeProblem answers with a page that describes an error.
func (p *Pages) ServeProblem(w http.ResponseWriter, r *http.Request, err error) {
	setHeaders(w, "no-referrer")
	p.fail(w, r, site.Reader{}, err)
}

// IsRefusal reports whether an error is an answer to the person at the browser.
func IsRefusal(err error) bool { return errors.Is(err, auth.ErrRefused) }
