//go:build e2e

package delivery

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
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

// The limits that a receiver keeps under a hostile token holder.
const (
	hostileToken  = "the-token-of-the-attacker"
	hostileMemory = 256 << 20
	hostileQuota  = 1 << 30
	hostileP99    = 200 * time.Millisecond
)

// TestHostileTokenHolder attacks a receiver with one token in all ways at once. At the same time it
// delivers runs with another token: all of them arrive, within the limits of memory and disk space.
// RT_HOSTILE sets the duration; then the time of the other requests is checked too.
func TestHostileTokenHolder(t *testing.T) {
	length, isTimed := 20*time.Second, false
	if text := os.Getenv("RT_HOSTILE"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("RT_HOSTILE: %v", err)
		}
		isTimed = true
	}
	s := newSite(t)
	if err := os.WriteFile(s.path("token"), []byte(token+"\n"+hostileToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.configure(t, "", "[serve]", fmt.Sprintf("quota = \"%dB\"", hostileQuota), fmt.Sprintf("token_quota = \"%dB\"", hostileQuota/2))
	r := serve(t, s)
	calm := deliverAll(t, r.addr, 5*time.Second) // without the attack, for comparison
	calm.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	a := newAttack(t, r.addr)
	a.start(ctx, &work)
	others := deliverAll(t, r.addr, length)
	var disk int64
	// On a busy machine the attacker's large requests delay the small ones of the same token: then the attack goes on.
	end := time.Now().Add(length)
	latest := end.Add(5 * time.Minute)
	goesOn := func() bool {
		if len(a.unseen()) > 0 {
			return time.Now().Before(latest)
		}
		return time.Now().Before(end)
	}
	for goesOn() {
		disk = max(disk, diskUse(s.path("received")))
		time.Sleep(time.Second)
	}
	cancel()
	work.Wait()
	others.Wait()
	memory := peakMemory(t, r.cmd.Process.Pid)
	p50, p99, most := others.percentile(50), others.percentile(99), others.percentile(100)
	t.Logf("%s: %d requests of others, p50 %s, p99 %s, maximum %s (p99 without the attack %s); %d failed; memory %d MiB, disk %d of %d MiB; answers to the attacker: %s",
		length, len(others.took), p50, p99, most, calm.percentile(99), len(others.failed), memory>>20, disk>>20, hostileQuota>>20, a.summary())
	if len(others.failed) > 0 || len(others.took) < 100 {
		t.Errorf("%d requests of others, failed: %q", len(others.took), others.failed[:min(5, len(others.failed))])
	}
	if memory > hostileMemory {
		t.Errorf("the receiver took %d MiB of memory, the limit is %d", memory>>20, hostileMemory>>20)
	}
	if disk > hostileQuota {
		t.Errorf("the receiver took %d MiB of disk space, the quota is %d", disk>>20, hostileQuota>>20)
	}
	if isTimed && p99 > hostileP99 {
		t.Errorf("p99 of others is %s, the limit %s", p99, hostileP99)
	}
	if list := a.unseen(); len(list) > 0 {
		t.Errorf("no answer to the attacker had the status %v", list)
	}
}

// timings are the durations of the requests of other clients.
type timings struct {
	sync.WaitGroup
	mu     sync.Mutex
	took   []time.Duration
	failed []string
}

// deliverAll starts the delivery of runs by several clients at the same time, for this length.
func deliverAll(t *testing.T, addr string, length time.Duration) *timings {
	m := &timings{}
	for range 4 {
		m.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), length)
			defer cancel()
			m.deliver(ctx, t, addr)
		})
	}
	return m
}

func (m *timings) add(what string, began time.Time, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.took = append(m.took, time.Since(began))
	if err != nil {
		m.failed = append(m.failed, what+": "+err.Error())
	}
	return err == nil
}

func (m *timings) percentile(p int) time.Duration {
	slices.Sort(m.took)
	if len(m.took) == 0 {
		return 0
	}
	return m.took[min(len(m.took)-1, len(m.took)*p/100)].Round(time.Millisecond)
}

// deliver delivers runs until the context ends.
func (m *timings) deliver(ctx context.Context, t *testing.T, addr string) {
	web := &http.Client{Timeout: time.Minute}
	client, err := sentinel.New(sentinel.Config{HTTP: web, Endpoint: "http://" + addr, Token: token, Dialect: upload.DialectSpec})
	store, serr := s3.New(s3.Config{HTTP: web, Endpoint: "http://" + addr})
	if err := errors.Join(err, serr); err != nil {
		t.Error(err)
		return
	}
	free := context.WithoutCancel(ctx) // a request in progress at the end counts
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		began := time.Now()
		reg, err := client.Register(free, rt.Run{Meta: rt.Metadata{JobName: "md"}}, rt.Host{})
		if !m.add("register", began, err) {
			continue
		}
		uri := fmt.Sprintf("%s/%s/000001.csv.gz", reg.UploadURIPrefix, reg.RemoteID)
		body := packed(t, reg.RemoteID, 1)
		began = time.Now()
		if !m.add("upload", began, store.Put(free, uri, reg.Credentials, body)) {
			continue
		}
		began = time.Now()
		m.add("finish", began, client.Finish(free, upload.Finish{Dialect: upload.DialectSpec, RemoteID: reg.RemoteID, Status: upload.StatusFinished, URIs: []string{uri}}))
		began = time.Now()
		status, text, err := call(free, web, token, http.MethodGet, "http://"+addr+"/runs/"+reg.RemoteID+"/data", "")
		if err == nil && (status != http.StatusOK || text != line(reg.RemoteID, 1)) {
			err = fmt.Errorf("%d %.100q", status, text)
		}
		m.add("data", began, err)
	}
}

// call sends a request of the API and returns the answer.
func call(ctx context.Context, web *http.Client, token, method, url, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := web.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// attack is everything that the hostile token holder does.
type attack struct {
	addr, id string
	web      *http.Client
	store    *s3.Uploader
	grant    upload.Registered
	bomb     []byte // small, and 1 GiB when it is decompressed
	bulk     []byte // an object of 16 MiB that is as it should be

	answers [600]atomic.Int64 // by status; 0: none
}

func newAttack(t *testing.T, addr string) *attack {
	t.Helper()
	a := &attack{addr: addr, web: &http.Client{Timeout: time.Minute}}
	client, err := sentinel.New(sentinel.Config{HTTP: a.web, Endpoint: "http://" + addr, Token: hostileToken, Dialect: upload.DialectSpec})
	if err == nil {
		a.grant, err = client.Register(t.Context(), rt.Run{}, rt.Host{})
	}
	if err == nil {
		a.store, err = s3.New(s3.Config{HTTP: a.web, Endpoint: "http://" + addr})
	}
	if err != nil {
		t.Fatal(err)
	}
	a.id = a.grant.RemoteID
	a.bomb = compressed(t, 1<<30, make([]byte, 1<<20))
	noise := make([]byte, 1<<20)
	rand.Read(noise)
	a.bulk = compressed(t, 32<<20, append([]byte(hex.EncodeToString(noise)), '\n'))
	return a
}

// compressed is the gzip of n bytes, made of parts.
func compressed(t *testing.T, n int, part []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	gz, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	for ; n > 0 && err == nil; n -= len(part) {
		_, err = gz.Write(part)
	}
	if err := errors.Join(err, gz.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// attackPeriod is the time after which large requests alternate with many small ones. Large ones
// would slow down the small ones of the same token.
const attackPeriod = 5 * time.Second

// start begins all attacks, until the context ends.
func (a *attack) start(ctx context.Context, work *sync.WaitGroup) {
	bomb := `{"run_status":"finished","data_source":"inline","data_csv":"` + base64.StdEncoding.EncodeToString(a.bomb) + `"}`
	long := `{"run_status":"finished","data_source":"s3","data_uris":[` + strings.Repeat(`"s3://rt/runs/x",`, 400_000) + `""]}`
	began := time.Now()
	several := func(n int, when func(period int) bool, do func(n int)) {
		for range n {
			work.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					if !when(int(time.Since(began) / attackPeriod)) {
						time.Sleep(attackPeriod / 10)
						continue
					}
					do(i)
				}
			})
		}
	}
	always := func(int) bool { return true }
	large := func(period int) bool { return period%2 == 0 }
	small := func(period int) bool { return period%2 == 1 }
	run := "http://" + a.addr + "/runs/" + a.id
	several(4, large, func(int) { a.api(ctx, http.MethodPost, run+"/finish", bomb) })
	several(2, large, func(int) { a.api(ctx, http.MethodPost, run+"/finish", long) })
	several(64, small, func(int) { a.api(ctx, http.MethodPost, "http://"+a.addr+"/runs", `{"job_name":"x"}`) })
	several(4, always, func(int) { a.api(ctx, http.MethodGet, "http://"+a.addr+"/runs?limit=10000", "") })
	several(2, always, func(int) { a.api(ctx, http.MethodGet, run+"/data", "") })
	several(2, large, func(n int) { a.put(ctx, n, a.bulk) })
	several(2, large, func(n int) { a.put(ctx, 100_000+n, a.bomb) })
	several(300, always, func(int) {
		a.slowly(ctx, "POST /runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+hostileToken+"\r\nContent-Length: 1000\r\n\r\n{")
	})
	several(30, always, func(int) {
		a.slowly(ctx, "GET /runs/"+a.id+"/data HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+hostileToken+"\r\n\r\n")
	})
}

func (a *attack) api(ctx context.Context, method, url, body string) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+hostileToken)
	status := 0
	if resp, err := a.web.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		status = resp.StatusCode
	}
	a.answers[status].Add(1)
}

func (a *attack) put(ctx context.Context, n int, body []byte) {
	err := a.store.Put(ctx, fmt.Sprintf("%s/%s/%06d.csv.gz", a.grant.UploadURIPrefix, a.id, n), a.grant.Credentials, body)
	status := http.StatusOK
	if failed, ok := errors.AsType[*upload.Error](err); ok {
		status = failed.Status
	} else if err != nil {
		status = 0
	}
	a.answers[status].Add(1)
}

// slowly sends a text, and waits without reading until the connection ends.
func (a *attack) slowly(ctx context.Context, text string) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.addr)
	if err != nil {
		time.Sleep(time.Second)
		return
	}
	defer c.Close()
	_, _ = io.WriteString(c, text)
	select {
	case <-ctx.Done():
	case <-time.After(15 * time.Second):
	}
}

func (a *attack) summary() string {
	var parts []string
	for status := range a.answers {
		if n := a.answers[status].Load(); n > 0 {
			parts = append(parts, fmt.Sprintf("%d x %d", n, status))
		}
	}
	return strings.Join(parts, ", ")
}

// unseen returns the statuses that the attacker must get, and that no answer had yet.
func (a *attack) unseen() (list []int) {
	for _, status := range []int{http.StatusCreated, http.StatusRequestEntityTooLarge} {
		if a.answers[status].Load() == 0 {
			list = append(list, status)
		}
	}
	return list
}

// diskUse is the disk space of a directory.
func diskUse(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return bytes
}

// peakMemory is the most resident memory of a process.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib int64
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
