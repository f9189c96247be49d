package auth

import (
	"context"
	"fmt"
	"net/netip"
	"sync"

	"github.com/resource-tracker/rt/site"
)

// turn waits until unmunge may run for a request of an address. The caller calls leave after it.
func (m *Munge) turn(ctx context.Context, remote string) (leave func(), err error) {
	if address, err := netip.ParseAddrPort(remote); err == nil {
		remote = address.Addr().Unmap().String()
	}
	own, release := m.ofOne.turnsOf(remote)
	for n, turns := range []chan struct{}{own, m.turns} {
		select {
		case turns <- struct{}{}:
			continue
		case <-ctx.Done():
		}
		if n > 0 {
			<-own
		}
		release()
		return nil, fmt.Errorf("%w: %d MUNGE credentials are being decoded, %d of them for one address", site.ErrBusy, mungeMax, mungeMaxOfAddress)
	}
	return func() {
		<-m.turns
		<-own
		release()
	}, nil
}

// addressTurns are the turns of each address with a request. The zero value is ready to use.
type addressTurns struct {
	mu   sync.Mutex
	held map[string]*heldTurns
}

type heldTurns struct {
	turns    chan struct{}
	requests int // that hold or wait for a turn
}

// turnsOf returns the turns of an address. The caller calls release when it needs them no longer.
func (a *addressTurns) turnsOf(address string) (turns chan struct{}, release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.held == nil {
		a.held = map[string]*heldTurns{}
	}
	h := a.held[address]
	if h == nil {
		h = &heldTurns{turns: make(chan struct{}, mungeMaxOfAddress)}
		a.held[address] = h
	}
	h.requests++
	return h.turns, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		h.requests--
		if h.requests == 0 {
			delete(a.held, address)
		}
	}
}
