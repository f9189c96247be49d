package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		err := json.NewDecoder(bounded(resp.Body, maxAdvice)).Decode(&answer)
		isOther := errors.Is(err, ErrAnswer) || errors.Is(err, ErrUnreachable)
		if err != nil && !isOther {
			err = fmt.Errorf("%w: %w", ErrAnswer, err)
		}
		return err
	})
	return answer.Kinds, err
}
