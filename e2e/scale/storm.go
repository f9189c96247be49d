package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// traffic is the load of all nodes together on the receiver.
type traffic struct {
	mu           sync.Mutex
	busy, peak   int
	sent         []time.Time
	took         []time.Duration
	again, bytes int64 // requests with an answer to retry later, or without an answer
}

// through counts the requests of a node.
type through struct {
	*traffic
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	at := time.Now()
	t.mu.Lock()
	t.busy++
	t.peak = max(t.peak, t.busy)
	t.sent = append(t.sent, at)
	t.bytes += max(0, r.ContentLength)
	t.mu.Unlock()
	resp, err := t.next.RoundTrip(r)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy--
	t.took = append(t.took, time.Since(at))
	if err != nil || resp.StatusCode >= 400 {
		t.again++
	}
	return resp, err
}

// clients makes a node's clients, with their own connections.
func (t *traffic) clients(url string) (upload.Client, upload.Putter, func(), error) {
	web, err := upload.NewHTTPClient(nil)
	if err != nil {
		return nil, nil, nil, err
	}
	own := web.Transport
	web.Transport = through{t, own}
	client, err := sentinel.New(sentinel.Config{HTTP: web, Endpoint: url, Token: token, Dialect: upload.DialectSpec})
	if err != nil {
		return nil, nil, nil, err
	}
	store, err := s3.New(s3.Config{HTTP: web, Endpoint: url})
	return client, store, own.(*http.Transport).CloseIdleConnections, err
}

// storm drains every node once, starting at the same instant.
func storm(ctx context.Context, o options, r *receiver, jitter time.Duration) error {
	var t traffic
	var work sync.WaitGroup
	var mu sync.Mutex
	var sum upload.Summary
	var lasted []time.Duration
	start := make(chan struct{})
	for i := range o.nodes {
		client, store, done, err := t.clients(r.url)
		if err != nil {
			return err
		}
		work.Go(func() {
			n := newNode(i, o.rows, o.records)
			<-start
			s, _ := upload.Drain(ctx, n, client, store, upload.DrainOptions{Jitter: jitter}) // the summary has the error
			done()
			mu.Lock()
			defer mu.Unlock()
			sum.Delivered += s.Delivered
			sum.Failed += s.Failed + s.Waiting
			sum.PossibleDuplicates += s.PossibleDuplicates
			lasted = append(lasted, time.Duration(s.ElapsedSecs*float64(time.Second)))
		})
	}
	before, err := r.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	close(start)
	work.Wait()
	elapsed := time.Since(began)
	after, err := r.cpu()
	if err != nil {
		return err
	}
	t.print(elapsed)
	slices.Sort(lasted)
	fmt.Printf("  a node's drain: median %s, p99 %s, longest %s\n", brief(at(lasted, 0.5)), brief(at(lasted, 0.99)), brief(at(lasted, 1)))
	fmt.Printf("  %d runs delivered, %d left to the next drain, %d possible duplicates\n", sum.Delivered, sum.Failed, sum.PossibleDuplicates)
	fmt.Printf("  receiver: %.2f ms of CPU time a run, at most %.0f MiB resident\n\n",
		(after-before).Seconds()*1e3/float64(max(1, sum.Delivered)), r.resident())
	return nil
}

func (t *traffic) print(elapsed time.Duration) {
	slices.SortFunc(t.sent, time.Time.Compare)
	slices.Sort(t.took)
	fmt.Printf("  %d requests in %s, %.0f/s on average, %d in the busiest second, %d in flight at most\n",
		len(t.sent), brief(elapsed), float64(len(t.sent))/elapsed.Seconds(), busiest(t.sent, time.Second), t.peak)
	fmt.Printf("  a request: median %s, p99 %s, longest %s; %d to be retried; %d bytes of bodies a request\n",
		brief(at(t.took, 0.5)), brief(at(t.took, 0.99)), brief(at(t.took, 1)), t.again, t.bytes/int64(max(1, len(t.sent))))
}

// busiest returns the highest number of times within any span.
func busiest(sorted []time.Time, span time.Duration) (most int) {
	first := 0
	for i, at := range sorted {
		for at.Sub(sorted[first]) >= span {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// at returns a quantile of sorted spans.
func at(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

func brief(d time.Duration) string {
	if d > time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
