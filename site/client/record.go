package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
)

// sums matches an ETag that is a SHA-256. A proxy between can make it weak, or replace it.
var sums = regexp.MustCompile(`^(?:W/)?"([0-9a-f]{64})"$`)

// Record writes the complete record of a run to w. It checks the record against the SHA-256 in the
// answer, because a record can be newer than the list. After an error w has a part of the record.
func (c *Client) Record(ctx context.Context, run *ListedRun, w io.Writer) error {
	return c.get(ctx, "/v1/runs/"+url.PathEscape(run.ID)+"/record", nil, func(resp *http.Response) error {
		if resp.ContentLength > c.limits.record {
			return fmt.Errorf("%w: the record of run %.80q has more than %d MiB", ErrAnswer, run.ID, c.limits.record>>20)
		}
		want := run.RecordSHA256
		if tag := sums.FindStringSubmatch(resp.Header.Get("ETag")); tag != nil {
			want = tag[1]
		}
		hash := sha256.New()
		_, err := io.Copy(io.MultiWriter(w, hash), bounded(resp.Body, c.limits.record))
		if err != nil {
			return fmt.Errorf("the record of run %.80q: %w", run.ID, err)
		}
		if got := hex.EncodeToString(hash.Sum(nil)); got != want {
			return fmt.Errorf("%w: the record of run %.80q does not have the SHA-256 that the site names", ErrAnswer, run.ID)
		}
		return nil
	})
}
