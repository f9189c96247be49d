package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Link is an address of the pages of a site that lets its holder in.
type Link struct {
	URL     string    `json:"url"`
	Expires time.Time `json:"expires"`
}

// WebLink returns a link that logs a browser in as the user of this process, once. It leads to the page of a job, or to
// the jobs of the user.
func (c *Client) WebLink(ctx context.Context, job string) (Link, error) {
	return c.link(ctx, url.Values{"for": {"web"}, "job": {job}})
}

// ShareLink returns a link that shows the page of a job to everyone who has it.
func (c *Client) ShareLink(ctx context.Context, job string) (Link, error) {
	return c.link(ctx, url.Values{"for": {"share"}, "job": {job}})
}

const maxLink = 16 << 10 // bytes of an answer with a link

func (c *Client) link(ctx context.Context, query url.Values) (l Link, err error) {
	err = c.ask(ctx, http.MethodPost, "/links", query, func(resp *http.Response) error {
		if err := json.NewDecoder(bounded(resp.Body, maxLink)).Decode(&l); err != nil {
			return fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		l.URL, err = c.absolute(l.URL)
		return err
	})
	return l, err
}

// absolute returns the address of a page that the service names, which can be relative.
func (c *Client) absolute(page string) (string, error) {
	base, err := url.Parse(c.base + "/")
	if err != nil {
		return "", err
	}
	at, err := base.Parse(page)
	if err != nil {
		return "", fmt.Errorf("%w: it has no link", ErrAnswer)
	}
	isWeb := at.Scheme == "https" || at.Scheme == "http"
	isPage := page != "" && isWeb && at.Host != ""
	if !isPage {
		return "", fmt.Errorf("%w: it has no link", ErrAnswer)
	}
	return at.String(), nil
}

// IsNotIdentified reports whether the service does not accept the proof of the user, or gives no links.
func IsNotIdentified(err error) bool {
	e, isAnswer := errors.AsType[*Error](err)
	return isAnswer && slices.Contains([]int{http.StatusUnauthorized, http.StatusForbidden}, e.Status)
}
