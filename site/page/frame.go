package page

import (
	"bytes"
	"cmp"
	"net/http"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// frame is what all pages have.
type frame struct {
	Title   string
	Path    string // of the page, to mark it in the navigation
	Reader  site.Reader
	Problem string
	Prices  report.Prices
	Site    string      // its name
	Crumbs  []site.Link // the way back
	Page    any         // what the page shows
	Refresh string      // seconds after which the browser loads the page again; empty: it does not
	// IsTitled is set if the page has its own heading.
	IsTitled bool
	pages    *Pages
}

// Who describes the reader.
func (f frame) Who() string {
	switch {
	case f.Reader.Operator && f.Reader.User == "":
		return "operator"
	case f.Reader.Operator:
		return f.Reader.User + ", operator"
	}
	return f.Reader.User
}

// write writes a page after all of it has been made.
func (f frame) write(w http.ResponseWriter, status int, name string, page any) error {
	f.Page = page
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, name, f); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the client has closed the connection
	return nil
}

// HasPages reports whether the reader has other pages: one who is not known has none, nor has the reader of a share.
func (f frame) HasPages() bool {
	isKnown := f.Reader.User != "" || f.Reader.Operator || len(f.Reader.Accounts) > 0
	return isKnown && !f.Reader.IsShare()
}

// refreshed is the frame of a page that the browser loads again if jobs are running.
func (f frame) refreshed(isRunning bool) frame {
	if isRunning {
		f.Refresh = refresh
	}
	return f
}

// IsSession reports whether the reader can log out.
func (f frame) IsSession() bool { return f.Reader.By == "session" }

func (f frame) withProblem(text string) frame {
	f.Problem = text
	return f
}

func (p *Pages) frame(r *http.Request, reader site.Reader, title string) frame {
	f := frame{Title: title, Path: nameOf(r), Reader: reader, Prices: p.conf.Registry.Prices(), Site: cmp.Or(p.conf.Name, "rt"), pages: p}
	isBelow := f.HasPages() && f.Path != ""
	if isBelow {
		f.Crumbs = []site.Link{{Text: "Home", URL: "./"}}
	}
	isJob := f.Path == "job" || f.Path == "share" || f.Path == "compare"
	if isBelow && isJob {
		f.Crumbs = append(f.Crumbs, site.Link{Text: "Jobs", URL: "jobs"})
	}
	return f
}

// show answers with a page.
func (p *Pages) show(r request, w http.ResponseWriter, name, title string, page any) error {
	return p.frame(r.Request, r.reader, title).write(w, http.StatusOK, name, page)
}

// tab is a page in the navigation.
type tab struct {
	site.Link
	IsHere bool
}

// Tabs are the pages in the navigation.
func (f frame) Tabs() (list []tab) {
	for _, l := range []site.Link{{Text: "Home", URL: "./"}, {Text: "Jobs", URL: "jobs"}, {Text: "Users", URL: "users"}, {Text: "Accounts", URL: "accounts"}, {Text: "Nodes", URL: "nodes"}} {
		isHere := l.URL == cmp.Or(f.Path, "./")
		if l.URL != "nodes" || f.Reader.Operator {
			list = append(list, tab{l, isHere})
		}
	}
	return list
}
