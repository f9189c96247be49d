package receiver

import (
	"context"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/resource-tracker/rt/upload"
)

// maxWait is how long a request waits for a place while all are taken.
const maxWait = 10 * time.Second

// burst is how many requests a client may send at once before its rate is limited.
const burst = 50

// limits is how many requests are served at the same time, and how many per second the
// address of one client may send.
type limits struct {
	places chan struct{}
	every  time.Duration // between two requests of a client, on average; 0: no limit

	mu  sync.Mutex
	due map[string]time.Time // when a client's next request would be due
}

func newLimits(places int, rate float64) *limits {
	l := &limits{places: make(chan struct{}, places), due: map[string]time.Time{}}
	if rate > 0 {
		l.every = time.Duration(float64(time.Second) / rate)
	}
	return l
}

// early returns how much too early a client's request comes; 0 for one in time.
func (l *limits) early(client string, now time.Time) time.Duration {
	if l.every == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	due := l.due[client]
	if due.Before(now) {
		due = now
	}
	if ahead := due.Sub(now) - burst*l.every; ahead > 0 {
		return ahead
	}
	if len(l.due) > 1<<16 { // those that are in time need no entry
		for c, t := range l.due {
			if t.Before(now) {
				delete(l.due, c)
			}
		}
	}
	l.due[client] = due.Add(l.every)
	return 0
}

// enter takes a place; false if none became free in time.
func (l *limits) enter(ctx context.Context) bool {
	select {
	case l.places <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(maxWait)
	defer t.Stop()
	select {
	case l.places <- struct{}{}:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// end takes all places for good, as the requests in progress end; false if that takes too
// long.
func (l *limits) end() bool {
	t := time.NewTimer(maxWait)
	defer t.Stop()
	for range cap(l.places) {
		select {
		case l.places <- struct{}{}:
		case <-t.C:
			return false
		}
	}
	return true
}

func (l *limits) leave() { <-l.places }

// limited applies the limits to a handler: 429 for a client that sends too much, 503 if no
// place is free, with HeaderUndone; both with Retry-After.
func (l *limits) limited(w http.ResponseWriter, r *http.Request, next func(http.ResponseWriter, *http.Request)) {
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = r.RemoteAddr
	}
	if wait := l.early(client, time.Now()); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		fail(w, http.StatusTooManyRequests, "this client sends too many requests")
		return
	}
	if !l.enter(r.Context()) {
		w.Header().Set("Retry-After", strconv.Itoa(int(maxWait.Seconds())))
		w.Header().Set(upload.HeaderUndone, "1")
		fail(w, http.StatusServiceUnavailable, "the receiver has too much to do")
		return
	}
	defer l.leave()
	next(w, r)
}
