package api

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"github.com/resource-tracker/rt/site"
)

// maxWait is how long a request waits for each of the resources that it needs.
const maxWait = 10 * time.Second

// burst is how many requests a client may send at once before its rate is limited.
const burst = 50

// limits are the resources that clients share. An upload counts toward the limits of the token to
// which its credentials were issued, whatever address it comes from. A request takes resources
// in the order of the fields. It takes units of work only after its body is complete, and a request
// that returns runs or data takes none. So a client that sends its body or reads the answer slowly
// delays only requests of its own token.
type limits struct {
	rate  *pace // requests of an address
	bytes *pace // bytes of the bodies of a token

	open  *site.Slots // requests of a token, from the header to the end of the answer
	reads *site.Slots // requests that return runs or data
	spool *site.Slots // KiB of bodies in temporary files
	large *site.Slots // the same, of bodies above mediumBody
	work  *site.Slots // units of work of requests that have a complete body, see workUnit
	cpu   *site.Slots // steps of some milliseconds that need a processor, see turn
}

const (
	// smallBody is the size, in bytes, up to which a body is kept in memory while it arrives.
	smallBody = 16 << 10
	// mediumBody is the size, in bytes, up to which bodies have temporary files of their own
	// limits. So a few slow clients with large bodies do not delay the many requests with smaller
	// ones.
	mediumBody = 1 << 20
	// maxReads is how many reads run at the same time, and maxTokenReads how many of one token.
	// Each can need some 20 MiB.
	maxReads, maxTokenReads = 16, 4
	// The maximum size of the temporary files of all tokens and of one token, in KiB.
	maxSpool, maxTokenSpool = 256 << 10, 32 << 10
	maxLarge, maxTokenLarge = 1 << 20, 256 << 10
	// workUnit is in bytes. A request takes one unit of work, plus one for each workUnit of its body.
	workUnit = 64 << 10
)

func newLimits(c *Config) *limits {
	cores := max(2, runtime.GOMAXPROCS(0))
	return &limits{
		rate:  newPace(c.ClientRate, burst),
		bytes: newPace(float64(c.TokenRate), burstSeconds*float64(c.TokenRate)),
		open:  site.NewSlots(1<<30, 4*c.MaxRequests),
		reads: site.NewSlots(maxReads, maxTokenReads),
		spool: site.NewSlots(maxSpool, maxTokenSpool),
		large: site.NewSlots(maxLarge, maxTokenLarge),
		work:  site.NewSlots(c.MaxRequests, max(1, c.MaxRequests/4)),
		cpu:   site.NewSlots(cores, cores/2),
	}
}

// takeUnits takes units of a resource for a client. If they are not free within maxWait, it returns a
// problem with status 503 and HeaderUndone.
func takeUnits(ctx context.Context, from *site.Slots, client string, units int) (give func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	if give := from.TakeUnits(ctx, client, units); give != nil {
		return give, nil
	}
	return nil, &problem{
		status: http.StatusServiceUnavailable, code: "SlowDown", retry: maxWait, undone: true,
		detail: "the receiver has too much to do, or this token has too many requests in progress",
	}
}

// turn limits a client to half of the processors, for example while its requests decompress data.
// The other half is for other clients.
type turn struct {
	ctx    context.Context
	client string
	cpu    *site.Slots
}

// do runs a step of some milliseconds, and returns its error. f must not wait for anything.
func (t turn) do(f func() error) error {
	give := t.cpu.TakeUnits(t.ctx, t.client, 1)
	if give == nil {
		return t.ctx.Err()
	}
	defer give()
	return f()
}

// encode returns a value as JSON.
func (t turn) encode(v any) (text []byte, err error) {
	err = t.do(func() (err error) {
		text, err = site.EncodeJSON(v)
		return err
	})
	return text, err
}

// pace limits the average rate of each client, in requests or bytes per second.
type pace struct {
	every time.Duration // for one unit; 0: no limit
	burst time.Duration // a client may send this much earlier than the average permits

	mu  sync.Mutex
	due map[string]time.Time // when the average rate permits a client's next unit
}

// burstSeconds sets the burst of bytes: what the average permits in this many seconds.
const burstSeconds = 60

func newPace(perSecond, burst float64) *pace {
	p := &pace{due: map[string]time.Time{}}
	if perSecond > 0 {
		p.every = time.Duration(float64(time.Second) / perSecond)
		p.burst = time.Duration(burst / perSecond * float64(time.Second))
	}
	return p
}

// early returns how long a client must wait before its next unit; 0 if it need not wait.
func (p *pace) early(client string, now time.Time) time.Duration {
	if p.every == 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(0, max(0, p.due[client].Sub(now))-p.burst)
}

// count adds units of a client.
func (p *pace) count(client string, units int64, now time.Time) {
	if p.every == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	due := p.due[client]
	if due.Before(now) {
		due = now
	}
	if len(p.due) > 1<<16 { // a client needs no entry after its due time
		for c, t := range p.due {
			if t.Before(now) {
				delete(p.due, c)
			}
		}
	}
	p.due[client] = due.Add(time.Duration(units) * p.every)
}

// tooFast is the answer to a client that must wait.
func tooFast(wait time.Duration, what string) error {
	return &problem{status: http.StatusTooManyRequests, code: "SlowDown", retry: wait, undone: true, detail: "this client sends too many " + what}
}

// addressOf returns the IP address of a connection's remote end, without the port. Of an IPv6 address it
// is the network of 64 bits: one host may have all addresses in it.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	address := at.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	return netip.PrefixFrom(address, 64).Masked().String()
}

// maxConnections is how many connections one address may have.
const maxConnections = 2048

// connections counts the connections of each address. It is the ConnState of an http.Server:
// it closes the connections above maxConnections.
type connections struct {
	mu sync.Mutex
	of map[string]int
}

func (c *connections) state(conn net.Conn, s http.ConnState) {
	address := addressOf(conn.RemoteAddr().String())
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case http.StateNew:
		c.of[address]++
		if c.of[address] > maxConnections {
			_ = conn.Close() // the server then reports StateClosed
		}
	case http.StateClosed, http.StateHijacked:
		c.of[address]--
		if c.of[address] <= 0 {
			delete(c.of, address)
		}
	}
}
