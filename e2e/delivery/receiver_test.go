//go:build e2e

package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// promise is what a receiver has confirmed about one run.
type promise struct {
	id       string
	objects  []string // keys
	finished bool
}

// TestReceiverKilled kills a receiver repeatedly while clients send requests: what it has
// confirmed must be stored.
func TestReceiverKilled(t *testing.T) {
	const kills, clients = 25, 8
	random := newRandom(t)
	s := newSite(t)
	r := serve(t, s)
	r.stop(t, syscall.SIGTERM) // from now on it listens on the same port
	r.start(t)
	addr := r.addr // the clients read it while start sets it again

	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	var promises []*promise
	var finishes atomic.Int64
	var work sync.WaitGroup
	for range clients {
		work.Go(func() {
			for ctx.Err() == nil {
				p := sendRun(ctx, t, addr)
				mu.Lock()
				promises = append(promises, p)
				mu.Unlock()
				if p.finished {
					finishes.Add(1)
				}
			}
		})
	}
	for range kills {
		awaitMore(t, &finishes)
		time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
		r.stop(t, syscall.SIGKILL)
		r.start(t)
	}
	cancel()
	work.Wait()
	r.stop(t, syscall.SIGKILL)
	r.start(t)
	registered, objects, finished := 0, 0, 0
	for _, p := range promises {
		if p.id == "" {
			continue
		}
		registered++
		objects += len(p.objects)
		if p.finished {
			finished++
		}
		p.check(t, r)
	}
	t.Logf("%d kills: %d registrations, %d objects and %d finishes were confirmed", kills, registered, objects, finished)
	if finished < kills {
		t.Error("too little was confirmed between the kills")
	}
}

// awaitMore waits until n grows: on a busy machine too, each kill hits a receiver that has
// confirmed something.
func awaitMore(t *testing.T, n *atomic.Int64) {
	t.Helper()
	before := n.Load()
	for range 600_000 {
		if n.Load() > before {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("nothing was confirmed in ten minutes")
}

// sendRun registers a run, uploads its objects and finishes it, as far as it gets.
func sendRun(ctx context.Context, t *testing.T, addr string) *promise {
	p := &promise{}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	client, err := sentinel.New(sentinel.Config{HTTP: web, Endpoint: "http://" + addr, Token: token, Dialect: upload.DialectSpec})
	if err != nil {
		t.Error(err)
		return p
	}
	store, err := s3.New(s3.Config{HTTP: web, Endpoint: "http://" + addr})
	if err != nil {
		t.Error(err)
		return p
	}
	reg, err := client.Register(ctx, rt.Run{Meta: rt.Metadata{JobName: "md"}}, rt.Host{})
	if err != nil {
		time.Sleep(time.Millisecond)
		return p
	}
	p.id = reg.RemoteID
	var uris []string
	for n := range 1 + rand.IntN(4) {
		uri := fmt.Sprintf("%s/%s/%06d.csv.gz", reg.UploadURIPrefix, p.id, n+1)
		if store.Put(ctx, uri, reg.Credentials, packed(t, p.id, n)) != nil {
			return p
		}
		uris = append(uris, uri)
		_, key, _ := strings.Cut(strings.TrimPrefix(uri, "s3://"), "/")
		p.objects = append(p.objects, key)
	}
	p.finished = client.Finish(ctx, upload.Finish{Dialect: upload.DialectSpec, RemoteID: p.id, Status: upload.StatusFinished, URIs: uris}) == nil
	return p
}

// packed is the n-th object of a run.
func packed(t *testing.T, id string, n int) []byte {
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	_, err := io.WriteString(gz, line(id, n))
	if cerr := gz.Close(); err != nil || cerr != nil {
		t.Error(err, cerr)
	}
	return b.Bytes()
}

func line(id string, n int) string { return fmt.Sprintf("column\n%s %d\n", id, n) }

// check verifies that everything that was confirmed is stored.
func (p *promise) check(t *testing.T, r *receiver) {
	t.Helper()
	var there struct {
		received
		Objects []struct{ Key string } `json:"objects"`
	}
	if err := json.Unmarshal(r.get(t, "/runs/"+p.id), &there); err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, o := range there.Objects {
		keys[o.Key] = true
	}
	for _, key := range p.objects {
		if !keys[key] {
			t.Errorf("%s: %s was confirmed and is lost", p.id, key)
		}
	}
	if !p.finished {
		return
	}
	if there.Status != "finished" {
		t.Errorf("%s: its finish was confirmed, its status is %s", p.id, there.Status)
	}
	want := "column\n"
	for n := range p.objects {
		want += strings.TrimPrefix(line(p.id, n), "column\n")
	}
	if got := string(r.get(t, "/runs/"+p.id+"/data")); got != want {
		t.Errorf("%s: its rows are %q, want %q", p.id, got, want)
	}
}
