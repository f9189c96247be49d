package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/resource-tracker/rt/report"
)

// maxAdvice limits the answer about the kinds of job of a user, in bytes.
const maxAdvice = 1 << 20

// Kinds returns the recent kinds of job of a user, the newest first.
func (c *Client) Kinds(ctx context.Context, user string) ([]report.Kind, error) {
	var answer struct{ Kinds []report.Kind }
	err := c.get(ctx, "/v1/advice", url.Values{"user": {user}}, func(resp *http.Response) error {
		return decode(bounded(resp.Body, maxAdvice), &answer)
	})
	return answer.Kinds, err
}
