package receiver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"
)

// repeated is the gzip of n equal bytes.
func repeated(t *testing.T, c byte, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	gz, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	_, err = gz.Write(bytes.Repeat([]byte{c}, n))
	if err := errors.Join(err, gz.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Data that inflates to many times its size is refused before it takes memory or disk space.
func TestDataThatInflatesTooMuchIsRefused(t *testing.T) {
	rc := newReceiver(t, Config{})
	g := register(t, rc)
	bomb := repeated(t, 0, 32<<20)
	body := `{"run_status":"finished","data_source":"inline","data_csv":"` + base64.StdEncoding.EncodeToString(bomb) + `"}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, answer := api(t, rc, "POST", "/runs/"+g.RunID+"/finish", body)
	runtime.ReadMemStats(&after)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, "decompressed") {
		t.Errorf("inline: %d %.200s", status, answer)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("a request of %d bytes took %d bytes of memory", len(body), took)
	}
	status, answer = put(t, rc, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/000001.csv.gz", body: bomb})
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, "InflatedTooLarge") {
		t.Errorf("object: %d %s", status, answer)
	}
	if _, text := api(t, rc, "GET", "/runs/"+g.RunID, ""); !strings.Contains(text, `"status":"running"`) || !strings.Contains(text, `"objects":[]`) {
		t.Error(text)
	}
	if size := sizeOf(filepath.Join(rc.store.dir, "runs")); size > 64<<10 {
		t.Errorf("%d bytes on the disk", size)
	}
}

// Inline data stays compressed on the disk.
func TestInlineDataIsStoredCompressed(t *testing.T) {
	rc := newReceiver(t, Config{})
	csv := "a,b\n" + strings.Repeat("1,2\n", 100_000)
	for _, text := range []string{csv, base64.StdEncoding.EncodeToString(packed(t, csv))} {
		id := register(t, rc).RunID
		for range 2 {
			if status, answer := finishInline(t, rc, id, text); status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
		}
		wantRows(t, rc, id, csv)
		if _, answer := api(t, rc, "GET", "/runs/"+id, ""); !strings.Contains(answer, `"rows":100000`) || strings.Count(answer, `"rows"`) != 1 {
			t.Error(answer)
		}
		if size := sizeOf(rc.store.runDir(id)); size > 32<<10 {
			t.Errorf("%d bytes of text take %d bytes on the disk", len(csv), size)
		}
	}
}

// The size of a finish has limits of its own.
func TestTooLargeFinishes(t *testing.T) {
	rc := newReceiver(t, Config{})
	g := register(t, rc)
	key := "/runs/" + g.RunID + "/1"
	if status, answer := put(t, rc, signedPut{g: g, path: "/rt" + key, body: packed(t, "a\n1\n")}); status != 200 {
		t.Fatal(status, answer)
	}
	uri := `"s3://rt` + key + `"`
	for name, tc := range map[string]struct {
		fields string
		status int
	}{
		"a URI twice":   {`"data_source":"s3","data_uris":[` + uri + `,` + uri + `]`, 422},
		"too many URIs": {`"data_source":"s3","data_uris":[` + strings.Repeat(`"",`, maxObjects) + uri + `]`, 413},
		"too long":      {`"data_source":"inline","data_csv":"` + strings.Repeat("x", maxFinish) + `"`, 413},
	} {
		if status, answer := api(t, rc, "POST", "/runs/"+g.RunID+"/finish", `{"run_status":"finished",`+tc.fields+`}`); status != tc.status {
			t.Errorf("%s: %d %.200s", name, status, answer)
		}
	}
}

// The number of rows is limited, however short they are.
func TestTooManyRows(t *testing.T) {
	newlines := repeated(t, '\n', maxRows+1)
	_, err := inspect(turn{t.Context(), "a", newSlots(1, 1)}, bytes.NewReader(newlines), maxInflated, io.Discard)
	if p, ok := errors.AsType[*problem](err); !ok || p.status != http.StatusRequestEntityTooLarge {
		t.Error(err)
	}
}

// The uploads of a finished run are those that its finish names. The others are not data.
func TestUploadsThatTheFinishDoesNotNameAreNoData(t *testing.T) {
	rc := newReceiver(t, Config{})
	for _, finish := range []string{
		`"data_source":"s3","data_uris":["s3://rt/runs/%s/000001.csv.gz"]`,
		`"run_id":"%s","data_source":"inline","data_csv":"a\n1\n"`,
	} {
		g := register(t, rc)
		for i := range 2 {
			path := fmt.Sprintf("/rt/runs/%s/%06d.csv.gz", g.RunID, i+1)
			if status, answer := put(t, rc, signedPut{g: g, path: path, body: packed(t, fmt.Sprintf("a\n%d\n", i+1))}); status != 200 {
				t.Fatal(status, answer)
			}
		}
		if status, answer := api(t, rc, "POST", "/runs/"+g.RunID+"/finish", `{"run_status":"finished",`+fmt.Sprintf(finish, g.RunID)+`}`); status != 200 {
			t.Fatal(status, answer)
		}
		wantRows(t, rc, g.RunID, "a\n1\n")
		_, answer := api(t, rc, "GET", "/runs/"+g.RunID, "")
		if !strings.Contains(answer, `"rows":1`) || strings.Contains(answer, "000002") {
			t.Error(answer)
		}
	}
}

// pipes is a listener without a network: in a synctest bubble its deadlines pass at once.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// send opens a connection and sends a text.
func (p pipes) send(t *testing.T, text string) net.Conn {
	here, there := net.Pipe()
	p <- there
	if _, err := io.WriteString(here, text); err != nil {
		t.Error(err)
	}
	return here
}

// Clients that send or read too slowly delay no other client, and are disconnected.
func TestSlowClientsDelayNobody(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		rc := newReceiver(t, Config{Dir: dir, MaxRequests: 4})
		id := registered(t, rc, 0)
		csv := "a\n" + incompressible() + "\n"
		if status, answer := finishInline(t, rc, id, csv); status != 200 {
			t.Fatal(status, answer)
		}
		ln := make(pipes)
		ended := make(chan error)
		go func() { ended <- Serve(t.Context(), ln, rc, time.Second, nil) }()
		var slow []net.Conn
		for range 12 {
			slow = append(slow, ln.send(t, "POST /runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer another\r\nContent-Length: 1000\r\n\r\n{"))
		}
		for range 4 {
			slow = append(slow, ln.send(t, "GET /runs/"+id+"/data HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer another\r\n\r\n"))
		}
		synctest.Wait()
		begin := time.Now()
		register(t, rc)
		wantRows(t, rc, id, csv)
		if status, _ := api(t, rc, "GET", "/runs", ""); status != 200 {
			t.Errorf("a list: %d", status)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("requests of another token waited %s", took)
		}
		time.Sleep(2 * slowStart)
		for i, c := range slow {
			answer, err := io.ReadAll(c)
			isRefused := i >= 12 || bytes.Contains(answer, []byte(" 408 "))
			if err != nil || !isRefused || len(answer) > len(csv) {
				t.Errorf("connection %d: %d bytes, %v: %.300s", i, len(answer), err, answer)
			}
		}
		_ = ln.Close()
		<-ended
		if err := rc.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A body that takes long, but arrives at the minimum rate, is accepted and answered.
func TestABodyAtTheMinimumRate(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		rc := newReceiver(t, Config{Dir: dir})
		id := registered(t, rc, 0)
		ln := make(pipes)
		ended := make(chan error)
		go func() { ended <- Serve(t.Context(), ln, rc, time.Second, nil) }()
		line := strings.Repeat("x", 64<<10)
		csv := `a\n` + strings.Repeat(line, 40) + `\n`
		body := `{"run_status":"finished","data_source":"inline","data_csv":"` + csv + `"}`
		c := ln.send(t, fmt.Sprintf("POST /runs/%s/finish HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", id, token, len(body)))
		for ; len(body) > 0; time.Sleep(3900 * time.Millisecond) {
			n := min(len(body), len(line))
			if _, err := io.WriteString(c, body[:n]); err != nil {
				t.Fatal(err)
			}
			body = body[n:]
		}
		answer, err := io.ReadAll(c)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) {
			t.Errorf("%s, %v", answer, err)
		}
		_ = ln.Close()
		<-ended
		if err := rc.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The connections of one address are limited.
func TestConnectionsOfAnAddress(t *testing.T) {
	c := connections{of: map[string]int{}}
	var last net.Conn
	for range maxConnections + 1 {
		here, there := net.Pipe()
		last = here
		c.state(there, http.StateNew)
	}
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("one connection too many is open: %v", err)
	}
	for range maxConnections + 1 {
		c.state(last, http.StateClosed)
	}
	if len(c.of) > 0 {
		t.Errorf("%v", c.of)
	}
}

// A body of one byte per minute counts against the bytes of its token, as a large one does.
func TestATokenWithTooManyBytesIsRefused(t *testing.T) {
	rc := newReceiver(t, Config{TokenRate: 1000})
	registered(t, rc, 70_000)
	r := httptest.NewRequest("POST", "/runs", strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	rc.ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "serve.token_rate") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	r.Header.Set("Authorization", "Bearer another")
	r.Body = io.NopCloser(strings.NewReader("{}"))
	w = httptest.NewRecorder()
	if rc.ServeHTTP(w, r); w.Code != http.StatusCreated {
		t.Errorf("another token: %d %s", w.Code, w.Body)
	}
}

// The runs of a token take no more than its quota, and all runs no more than theirs, also after a
// restart. Retention makes room again.
func TestQuotas(t *testing.T) {
	dir := t.TempDir()
	conf := Config{Dir: dir, Quota: 1 << 20, TokenQuota: 400 << 10}
	rc := newReceiver(t, conf)
	post := func(rc *Receiver, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "/runs", strings.NewReader(`{"job_name":"`+strings.Repeat("x", 20_000)+`"}`))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		rc.ServeHTTP(w, r)
		return w
	}
	fill := func(rc *Receiver, token, key string) (runs int) {
		t.Helper()
		for w := post(rc, token); ; w = post(rc, token) {
			if w.Code == http.StatusCreated && runs < 100 {
				runs++
				continue
			}
			if w.Code != http.StatusInsufficientStorage || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), key) {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			return runs
		}
	}
	if n := fill(rc, token, "serve.token_quota"); n < 10 || n > 17 {
		t.Errorf("%d runs of a token", n)
	}
	if n := fill(rc, "another", "serve.quota"); n < 10 || n > 17 {
		t.Errorf("%d runs of another token", n)
	}
	runs := sizeOf(filepath.Join(dir, "runs")) - blockBytes
	if rc.store.quota.used != runs || runs > 768<<10 {
		t.Errorf("counted %d bytes of %d", rc.store.quota.used, runs)
	}
	if err := rc.Close(); err != nil {
		t.Fatal(err)
	}
	again := newReceiver(t, conf)
	if again.store.quota.used != runs || fill(again, token, "quota") != 0 {
		t.Errorf("counted %d bytes of %d after a start", again.store.quota.used, runs)
	}
	if removed, err := again.sweep(t.Context(), time.Now().Add(time.Hour)); err != nil || removed == 0 {
		t.Errorf("%d, %v", removed, err)
	}
	if again.store.quota.used != 0 || len(again.store.quota.by) != 0 || fill(again, token, "serve.token_quota") < 5 {
		t.Errorf("%d bytes, %v", again.store.quota.used, again.store.quota.by)
	}
}

// A receiver that ended on a full disk starts on it, serves its data and refuses new data. When
// there is room again, it accepts data, and has the data that was only in the journal.
func TestStartOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("only root can mount a tmpfs of 4 MiB: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	rc := newReceiver(t, Config{Dir: filepath.Join(dir, "data")})
	registered(t, rc, 0)
	if err := rc.Close(); err != nil {
		t.Fatal(err)
	}
	rc = newReceiver(t, Config{Dir: rc.store.dir})
	there, lost := registered(t, rc, 0), registered(t, rc, 0)
	if err := errors.Join(rc.store.held.Close(), os.RemoveAll(rc.store.runDir(lost))); err != nil { // as a loss of power may leave it
		t.Fatal(err)
	}
	full := filepath.Join(dir, "full")
	f, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 8<<20)); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	_ = f.Close()
	var warned []error
	again := newReceiver(t, Config{Dir: rc.store.dir, Quota: 64 << 20, TokenQuota: 32 << 20, Warn: func(err error) { warned = append(warned, err) }})
	if len(warned) != 1 {
		t.Errorf("warnings: %v", warned)
	}
	if status, answer := api(t, again, "GET", "/runs/"+there, ""); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	r := httptest.NewRequest("POST", "/runs", strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	if again.ServeHTTP(w, r); w.Code != http.StatusInsufficientStorage || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if removed, err := again.sweep(t.Context(), time.Now().Add(time.Hour)); removed != 1 || err != nil { // only what the journal does not have
		t.Errorf("%d runs removed, %v", removed, err)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	again.store.journal.tried = time.Time{}
	registered(t, again, 0)
	_, list := api(t, again, "GET", "/runs", "")
	var runs []struct{ ID, Status string }
	if err := json.Unmarshal([]byte(list), &runs); err != nil || !strings.Contains(list, lost) {
		t.Errorf("%s: %v", list, err)
	}
	size, q := sizeOf(filepath.Join(rc.store.dir, "runs"))-blockBytes, again.store.quota
	if q.used != size || len(q.by) != 1 || q.by[again.keys.owner(HashToken(token))] != size {
		t.Errorf("the quota has %d bytes, by owner %v; the runs have %d", q.used, q.by, size)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
