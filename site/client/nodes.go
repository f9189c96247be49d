package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/resource-tracker/rt/site"
)

// Node is the last report of a node, with what the service finds wrong with it.
type Node struct {
	site.Node
	Problems []site.Problem `json:"problems"` // the most urgent first
}

// Nodes returns the nodes of a site, sorted by cluster and name. The service answers operators only. The sequence ends
// with the first error.
func (c *Client) Nodes(ctx context.Context) iter.Seq2[Node, error] {
	query := url.Values{"limit": {strconv.Itoa(jobsPerPage)}}
	return site.AllPages(func(cursor string) ([]Node, string, error) {
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page struct {
			Next  string
			Nodes []Node
		}
		err := c.get(ctx, "/v1/nodes", query, func(resp *http.Response) error {
			return decode(bounded(resp.Body, c.limits.page), &page)
		})
		isEndless := err == nil && cursor != "" && page.Next == cursor
		if isEndless {
			err = fmt.Errorf("ask the site %s: %w: its list does not end", c.base, ErrAnswer)
		}
		return page.Nodes, page.Next, err
	})
}

// decode reads an answer of one JSON document.
func decode(r *boundedReader, answer any) error {
	err := json.NewDecoder(r).Decode(answer)
	isOther := errors.Is(err, ErrAnswer) || errors.Is(err, ErrUnreachable)
	if err != nil && !isOther {
		err = fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return err
}
