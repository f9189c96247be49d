package auth

import (
	"context"
	"sync"
	"time"

	"github.com/resource-tracker/rt/internal/recovery"
)

// Names and groups stay valid for lookupAge. At most lookupCount are kept.
const (
	lookupAge   = time.Minute
	lookupCount = 10_000
)

// lookup caches the answers of the user database, which can be a server far away. At most mungeMax
// lookups are in progress.
type lookup[T any] struct {
	find  func(key string) (T, error)
	turns chan struct{}

	mu    sync.Mutex
	known map[string]entry[T]
}

type entry[T any] struct {
	value T
	until time.Time
}

func newLookup[T any](find func(string) (T, error)) *lookup[T] {
	return &lookup[T]{find: find, turns: make(chan struct{}, mungeMax), known: map[string]entry[T]{}}
}

// get returns the answer for a key. Errors are not cached.
func (l *lookup[T]) get(ctx context.Context, key string) (value T, err error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	l.mu.Lock()
	e, ok := l.known[key]
	l.mu.Unlock()
	if ok && time.Now().Before(e.until) {
		return e.value, nil
	}
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		return value, errTimeout
	}
	type answer struct {
		value T
		err   error
	}
	found := make(chan answer, 1)
	go func() { // the C library has no timeout: the turn is held until it returns
		defer recovery.Handle(func(p error) { found <- answer{err: p} })
		defer func() { <-l.turns }()
		v, err := l.find(key)
		found <- answer{v, err}
	}()
	select {
	case a := <-found:
		if a.err == nil {
			l.keep(key, a.value)
		}
		return a.value, a.err
	case <-ctx.Done():
		return value, errTimeout
	}
}

func (l *lookup[T]) keep(key string, value T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.known) >= lookupCount {
		clear(l.known)
	}
	l.known[key] = entry[T]{value, time.Now().Add(lookupAge)}
}
