package page

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
)

// sharePage is the page at which a user shares a job.
type sharePage struct {
	Job, Self, Back string    // what is shared; addresses of this page and of the job
	Link, Until     string    // the new link; empty: none was made
	IsAbsolute      bool      // of Link
	Shares          []oneOpen // the links of the user that are valid, for all jobs
}

// oneOpen is a link that shares a job.
type oneOpen struct{ Job, Page, Created, Until, Used, Revoke string }

// share shows the links that share a job. A POST makes or revokes one.
func (p *Pages) share(w http.ResponseWriter, r request) error {
	if !p.conf.Sessions.CanShare(r.reader) {
		return errAbsent
	}
	f, err := p.find(r)
	if err != nil {
		return err
	}
	page := sharePage{Job: "job " + f.Job, Self: r.linkOf("share", f), Back: r.linkOf("job", f)}
	revoked := r.URL.Query().Get("revoke")
	switch {
	case r.Method != http.MethodPost:
	case revoked != "":
		if err := p.conf.Sessions.Revoke(r.Request, r.reader.User, revoked); err != nil {
			return err
		}
		w.Header().Set("Location", page.Self)
		w.WriteHeader(http.StatusSeeOther)
		return nil
	default:
		made, err := p.newShare(r, pinned(f))
		if err != nil {
			return err
		}
		page.Link, page.Until, page.IsAbsolute = made.URL, moment(made.Expires), strings.Contains(made.URL, "://")
	}
	shares, err := p.conf.Sessions.SharesOf(r.Request, r.reader.User)
	if err != nil {
		return err
	}
	for _, s := range shares {
		one := oneOpen{Job: jobIn(s.Target), Page: s.Target, Created: moment(s.Created), Until: moment(s.Expires), Used: dash, Revoke: page.Self + "&revoke=" + s.ID}
		if at, ok := s.Used.Get(); ok {
			one.Used = moment(at)
		}
		page.Shares = append(page.Shares, one)
	}
	return p.show(r, w, "sharing", "Share job "+f.Job, page)
}

// jobIn is the id of a job in the address of its page.
func jobIn(page string) string {
	_, query, _ := strings.Cut(page, "?")
	values, _ := url.ParseQuery(query) // the service has made it
	return values.Get("id")
}

// withoutLinks removes the links to what a share does not show.
func (page *jobPage) withoutLinks() {
	for i := range page.Runs {
		page.Runs[i].Links = nil
	}
}

// pinned is the page of a job, with its generation: the id may be used again. The page of a task has its own id.
func pinned(f *sitereport.Found) string {
	cluster, of := f.Cluster.Or(""), &f.Jobs[len(f.Jobs)-1] // the oldest
	isWhole := f.Job == strconv.FormatUint(f.ID, 10)
	k := slices.IndexFunc(f.Jobs, func(j site.JobRow) bool { return j.JobID == f.ID })
	switch {
	case !isWhole:
		return jobLink("job", cluster, nameOfRow(of), of.Generation)
	case k < 0:
		return withMember(jobLink("job", cluster, f.Job, of.Generation), of.JobID)
	}
	return jobLink("job", cluster, f.Job, f.Jobs[k].Generation)
}

// Link is a link for a person. Its URL is relative if the address of the site is not known.
type Link struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}

func (p *Pages) newShare(r request, page string) (Link, error) {
	secret, expires, err := p.conf.Sessions.NewShare(r.Request, r.reader, page)
	return Link{p.conf.Sessions.Absolute("job?share=" + secret), expires}, err
}

// NewLink makes the link that the parameters of a request name. With for=web it leads to the page of job=JOB, or to the
// first page. With for=share it shares the job.
func (p *Pages) NewLink(r *http.Request, reader site.Reader) (Link, error) {
	q, of := r.URL.Query(), request{r, reader, reader.Access(), ""}
	page, job := "", q.Get("job")
	if job != "" {
		f, err := p.found.Find(r.Context(), reader, sitereport.Query{Job: job})
		if errors.Is(err, site.ErrNotFound) {
			err = errAbsent
		}
		if err != nil {
			return Link{}, err
		}
		page = pinned(f)
	}
	purpose := q.Get("for")
	switch {
	case purpose == "web":
		secret, expires, err := p.conf.Sessions.NewLink(r, reader, page)
		return Link{p.conf.Sessions.Absolute("enter?link=" + secret), expires}, err
	case purpose == "share" && job != "":
		return p.newShare(of, page)
	case purpose == "share":
		return Link{}, errAbsent
	}
	return Link{}, badRequest("A link is for=web, or for=share with a job.")
}
