package cloud

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resource-tracker/rt"
)

// pipes makes a Prober with connections to serve, within the process, so that a test can
// use a synctest bubble.
func pipes(serve func(net.Conn)) *Prober {
	return &Prober{
		Endpoints: DefaultEndpoints(),
		Dial: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				serve(server)
			}()
			return client, nil
		},
	}
}

// silent reads all and never answers.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// dripping answers each request with a byte a second, for ever.
func dripping(c net.Conn) {
	r := bufio.NewReader(c)
	if _, err := http.ReadRequest(r); err != nil {
		return
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nMetadata-Flavor: Google\r\n\r\n"); err != nil {
		return
	}
	for {
		if _, err := c.Write([]byte("1")); err != nil {
			return
		}
		time.Sleep(time.Second)
	}
}

// settle lets the servers see that their clients have gone: a bubble's clock
// stands still once its test has returned.
func settle() { time.Sleep(5 * time.Second) }

// TestNoService: where no metadata service is, all cloud_* fields are absent, and
// finding that out takes less than 5 s, however the network behaves.
func TestNoService(t *testing.T) {
	dial := func(err error) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) { return nil, err }
	}
	for name, p := range map[string]*Prober{
		"unreachable": {Endpoints: DefaultEndpoints(), Dial: dial(syscall.ENETUNREACH)},
		"refused":     {Endpoints: DefaultEndpoints(), Dial: dial(syscall.ECONNREFUSED)},
		"no name":     {Endpoints: DefaultEndpoints(), Dial: dial(&net.DNSError{IsNotFound: true})},
		"never connects": {Endpoints: DefaultEndpoints(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
		"silent":   pipes(silent),
		"dripping": pipes(dripping),
		"closes":   pipes(func(net.Conn) {}),
		"not HTTP": pipes(func(c net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(c)) // what it says does not matter
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n")
		}),
		"page of a portal": pipes(func(c net.Conn) {
			for r := bufio.NewReader(c); ; {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 21\r\n\r\n<html>log in!</html>\n"); err != nil {
					return
				}
			}
		}),
		"no URL": {Endpoints: Endpoints{"://", "://", "://"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				if got := p.Probe(t.Context(), All()); got != (rt.Host{}) {
					t.Errorf("no cloud became %+v", got)
				}
				if took := time.Since(start); took > probeTimeout {
					t.Errorf("it took %v", took)
				}
				settle()
			})
		})
	}
}

// TestT_CLD_02: each vendor has 2 s for all of its requests together.
func TestT_CLD_02(t *testing.T) {
	for _, vendor := range All() {
		for name, serve := range map[string]func(net.Conn){"silent": silent, "dripping": dripping} {
			t.Run(string(vendor)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start := time.Now()
					got := pipes(serve).Probe(t.Context(), []Vendor{vendor})
					if took := time.Since(start); got != (rt.Host{}) || took != vendorTimeout || took > 2*time.Second {
						t.Errorf("%+v after %v, want nothing after 2s", got, took)
					}
					settle()
				})
			})
		}
	}
}

// A vendor that stops answering half-way keeps what it has said, and a slow one
// does not hold up the one that knows the machine.
func TestPartOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pipes(func(c net.Conn) {
			for r := bufio.NewReader(c); ; {
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				if req.URL.Path != "/hetzner/v1/metadata/instance-id" && req.URL.Path != "/hetzner/v1/metadata/region" {
					silent(c)
					return
				}
				value := map[bool]string{true: "12", false: "fi"}[strings.HasSuffix(req.URL.Path, "id")]
				if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"+value); err != nil {
					return
				}
			}
		})
		start := time.Now()
		got := p.Probe(t.Context(), All())
		if want := (rt.Host{CloudVendorID: "hcloud", CloudRegionID: "fi"}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		if took := time.Since(start); took > vendorTimeout {
			t.Errorf("it took %v", took)
		}
		settle()
	})
}

// A defect in a probe does not end the program.
func TestProbeThatPanics(t *testing.T) {
	const broken Vendor = "broken"
	questions[broken] = func(_ context.Context, _ *service, h *rt.Host) bool {
		h.CloudRegionID = "half"
		panic("a defect of ours")
	}
	defer delete(questions, broken)
	if got := (&Prober{Endpoints: DefaultEndpoints()}).Probe(t.Context(), []Vendor{broken}); got != (rt.Host{}) {
		t.Errorf("of a fault: %+v", got)
	}
}
