package upload

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// endpoint is one of the two servers of Drain. It does all retries: it repeats a request after a
// growing pause with jitter. After several failures in a row without any answer it counts as down.
type endpoint struct {
	name  string
	tries uint            // requests per call, at most
	down  func(err error) // called when the endpoint counts as down

	mu       sync.Mutex
	failures int
}

// maxRetryAfter is the longest Retry-After that a drain waits for: a longer one is left to the next drain.
const maxRetryAfter = 2 * time.Minute

// downFailures is the number of requests in a row without an answer, over all workers, after which an endpoint is down.
const downFailures = 5

// send sends a request until it succeeds, is refused for good, or must wait for the next drain.
func (e *endpoint) send(ctx context.Context, request func(context.Context) error) error {
	p := newPause()
	attempt := func() (struct{}, error) {
		err := request(ctx)
		e.countFailures(ctx, err)
		var failed *Error
		isFinal := !errors.As(err, &failed) || failed.Kind != Temporary
		if err != nil && isFinal {
			return struct{}{}, backoff.Permanent(err)
		}
		if failed != nil {
			p.atLeast = failed.RetryAfter
		}
		return struct{}{}, err
	}
	_, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(p),
		backoff.WithMaxTries(e.tries), backoff.WithMaxElapsedTime(0))
	return err
}

// countFailures counts the failures in a row. Any answer, even a refusal, shows that the endpoint
// is up; a request that was cancelled here shows nothing.
func (e *endpoint) countFailures(ctx context.Context, err error) {
	var failed *Error
	refused := errors.As(err, &failed) && failed.Status != 0
	answered := err == nil || refused
	ownEnd := failed == nil || failed.Kind != Temporary || ctx.Err() != nil
	if !answered && ownEnd {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if answered {
		e.failures = 0
		return
	}
	e.failures++
	if e.failures >= downFailures {
		e.down(fmt.Errorf("%s is down (%d requests in a row without an answer): %w", e.name, e.failures, err))
	}
}

// pause is exponential with jitter, from half a second to half a minute. It is added to
// Retry-After, so that 10,000 nodes with the same Retry-After do not retry in the same instant.
type pause struct {
	exp     *backoff.ExponentialBackOff
	atLeast time.Duration
}

func newPause() *pause {
	exp := backoff.NewExponentialBackOff()
	exp.MaxInterval = 30 * time.Second
	exp.Multiplier = 2
	return &pause{exp: exp}
}

// NextBackOff implements backoff.BackOff.
func (p *pause) NextBackOff() time.Duration {
	if p.atLeast > maxRetryAfter {
		return backoff.Stop
	}
	return p.atLeast + p.exp.NextBackOff()
}

// Reset implements backoff.BackOff.
func (p *pause) Reset() { p.atLeast = 0; p.exp.Reset() }
