package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
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
	s := newServer(t, Config{})
	g := register(t, s)
	bomb := repeated(t, 0, 32<<20)
	body := `{"run_status":"finished","data_source":"inline","data_csv":"` + base64.StdEncoding.EncodeToString(bomb) + `"}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	status, answer := api(t, s, "POST", "/runs/"+g.RunID+"/finish", body)
	runtime.ReadMemStats(&after)
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, "decompressed") {
		t.Errorf("inline: %d %.200s", status, answer)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("a request of %d bytes took %d bytes of memory", len(body), took)
	}
	status, answer = put(t, s, signedPut{g: g, path: "/rt/runs/" + g.RunID + "/000001.csv.gz", body: bomb})
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(answer, "InflatedTooLarge") {
		t.Errorf("object: %d %s", status, answer)
	}
	if _, text := api(t, s, "GET", "/runs/"+g.RunID, ""); !strings.Contains(text, `"status":"running"`) || !strings.Contains(text, `"objects":[]`) {
		t.Error(text)
	}
	if size := memoryOf(s).bytes(t); size > 1<<10 {
		t.Errorf("%d bytes are stored", size)
	}
}

// Inline data stays compressed when it is stored.
func TestInlineDataIsStoredCompressed(t *testing.T) {
	s := newServer(t, Config{})
	csv := "a,b\n" + strings.Repeat("1,2\n", 100_000)
	for _, text := range []string{csv, base64.StdEncoding.EncodeToString(packed(t, csv))} {
		id := register(t, s).RunID
		for range 2 {
			if status, answer := finishInline(t, s, id, text); status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
		}
		wantRows(t, s, id, csv)
		if _, answer := api(t, s, "GET", "/runs/"+id, ""); !strings.Contains(answer, `"rows":100000`) || strings.Count(answer, `"rows"`) != 1 {
			t.Error(answer)
		}
		if size := memoryOf(s).bytes(t); size > 32<<10 {
			t.Errorf("%d bytes of text take %d bytes", len(csv), size)
		}
	}
}

// The size of a finish has limits of its own.
func TestTooLargeFinishes(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	key := "/runs/" + g.RunID + "/1"
	if status, answer := put(t, s, signedPut{g: g, path: "/rt" + key, body: packed(t, "a\n1\n")}); status != 200 {
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
		if status, answer := api(t, s, "POST", "/runs/"+g.RunID+"/finish", `{"run_status":"finished",`+tc.fields+`}`); status != tc.status {
			t.Errorf("%s: %d %.200s", name, status, answer)
		}
	}
}

// The number of rows is limited, however short they are.
func TestTooManyRows(t *testing.T) {
	rows := func(n int) error {
		newlines := repeated(t, '\n', 1+n) // with the header
		return inspect(turn{t.Context(), "a", site.NewSlots(1, 1)}, bytes.NewReader(newlines), maxInflated, io.Discard, &site.Object{})
	}
	if err := rows(maxRows); err != nil {
		t.Error(err)
	}
	err := rows(maxRows + 1)
	if p, ok := errors.AsType[*problem](err); !ok || p.status != http.StatusRequestEntityTooLarge {
		t.Error(err)
	}
}

// The uploads of a finished run are those that its finish names. The others are not data.
func TestUploadsThatTheFinishDoesNotNameAreNoData(t *testing.T) {
	s := newServer(t, Config{})
	for _, finish := range []string{
		`"data_source":"s3","data_uris":["s3://rt/runs/%s/000001.csv.gz"]`,
		`"run_id":"%s","data_source":"inline","data_csv":"a\n1\n"`,
	} {
		g := register(t, s)
		for i := range 2 {
			path := fmt.Sprintf("/rt/runs/%s/%06d.csv.gz", g.RunID, i+1)
			if status, answer := put(t, s, signedPut{g: g, path: path, body: packed(t, fmt.Sprintf("a\n%d\n", i+1))}); status != 200 {
				t.Fatal(status, answer)
			}
		}
		if status, answer := api(t, s, "POST", "/runs/"+g.RunID+"/finish", `{"run_status":"finished",`+fmt.Sprintf(finish, g.RunID)+`}`); status != 200 {
			t.Fatal(status, answer)
		}
		wantRows(t, s, g.RunID, "a\n1\n")
		_, answer := api(t, s, "GET", "/runs/"+g.RunID, "")
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
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{MaxRequests: 4})
		id := registered(t, s, 0)
		csv := "a\n" + incompressible() + "\n"
		if status, answer := finishInline(t, s, id, csv); status != 200 {
			t.Fatal(status, answer)
		}
		var other grant
		_, answer := as(t, s, "another", "/runs", "{}")
		if err := json.Unmarshal([]byte(answer), &other); err != nil {
			t.Fatal(err)
		}
		body := `{"run_status":"finished","data_source":"inline","data_csv":` + strconv.Quote(csv) + `}`
		if status, answer := as(t, s, "another", "/runs/"+other.RunID+"/finish", body); status != 200 {
			t.Fatal(status, answer)
		}
		ln := make(pipes)
		ended := make(chan error)
		go func() { ended <- Serve(t.Context(), ln, s, time.Second, nil) }()
		var slow []net.Conn
		for range 12 {
			slow = append(slow, ln.send(t, "POST /runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer another\r\nContent-Length: 1000\r\n\r\n{"))
		}
		for range 4 {
			slow = append(slow, ln.send(t, "GET /runs/"+other.RunID+"/data HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer another\r\n\r\n"))
		}
		synctest.Wait()
		begin := time.Now()
		register(t, s)
		wantRows(t, s, id, csv)
		if status, _ := api(t, s, "GET", "/runs", ""); status != 200 {
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
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A body that takes long, but arrives at the minimum rate, is accepted and answered. The rate of a
// large body is higher.
func TestABodyAtTheMinimumRate(t *testing.T) {
	for _, tc := range []struct {
		lines, status int
		every         time.Duration
	}{{12, 200, 3900 * time.Millisecond}, {40, 200, 490 * time.Millisecond}, {40, 408, 3900 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Config{})
			id := registered(t, s, 0)
			ln := make(pipes)
			ended := make(chan error)
			go func() { ended <- Serve(t.Context(), ln, s, time.Second, nil) }()
			line := strings.Repeat("x", 64<<10)
			body := `{"run_status":"finished","data_source":"inline","data_csv":"a\n` + strings.Repeat(line, tc.lines) + `\n"}`
			c := ln.send(t, fmt.Sprintf("POST /runs/%s/finish HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", id, token, len(body)))
			sent := make(chan error, 1)
			go func() {
				for ; len(body) > 0; time.Sleep(tc.every) {
					n := min(len(body), len(line))
					if _, err := io.WriteString(c, body[:n]); err != nil {
						sent <- err
						return
					}
					body = body[n:]
				}
				sent <- nil
			}()
			answer, err := io.ReadAll(c)
			if failed := <-sent; tc.status == 200 && failed != nil {
				t.Error(failed)
			}
			if err != nil || !bytes.HasPrefix(answer, fmt.Appendf(nil, "HTTP/1.1 %d ", tc.status)) {
				t.Errorf("%d lines: %s, %v", tc.lines, answer, err)
			}
			_ = ln.Close()
			<-ended
		})
	}
}

// The time in which a body waits for space is not the client's.
func TestABodyThatWaitsForSpaceIsNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Config{})
		ln := make(pipes)
		ended := make(chan error)
		go func() { ended <- Serve(t.Context(), ln, s, time.Second, nil) }()
		var give []func()
		for i := range maxSpool / maxTokenSpool {
			give = append(give, s.limits.spool.TakeUnits(t.Context(), fmt.Sprint(i), maxTokenSpool))
		}
		body := `{"job_name":"` + strings.Repeat("x", 100<<10) + `"}`
		c := ln.send(t, fmt.Sprintf("POST /runs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", token, len(body)))
		time.Sleep(slowStart - time.Second)
		for _, give := range give {
			give()
		}
		time.Sleep(slowStart - time.Second)
		if _, err := io.WriteString(c, body); err != nil {
			t.Error(err)
		}
		if answer, err := io.ReadAll(c); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 201 ")) {
			t.Errorf("%s, %v", answer, err)
		}
		_ = ln.Close()
		<-ended
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
	s := newServer(t, Config{TokenRate: 1000})
	registered(t, s, 70_000)
	r := httptest.NewRequest("POST", "/runs", strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "serve.token_rate") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	r.Header.Set("Authorization", "Bearer another")
	r.Body = io.NopCloser(strings.NewReader("{}"))
	w = httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusCreated {
		t.Errorf("another token: %d %s", w.Code, w.Body)
	}
}

// The answers when there is no room: the client may try later, and knows whether anything was done.
func TestAnswersWithoutRoom(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	for name, tc := range map[string]struct {
		err    error
		undone string
		text   string
	}{
		"quota":           {fmt.Errorf("%w: serve.quota", site.ErrQuota), "1", "serve.quota"},
		"the store's":     {fmt.Errorf("%w: /secret/registry.db", site.ErrFull), "", "disk is full"},
		"a full disk":     {&fs.PathError{Op: "write", Path: "/secret/x", Err: syscall.ENOSPC}, "", "disk is full"},
		"the disk's user": {&fs.PathError{Op: "write", Path: "/secret/x", Err: syscall.EDQUOT}, "", "disk is full"},
	} {
		memoryOf(s).fault = failing("Put", tc.err)
		csv := "a\n" + incompressible() + "\n"
		body := fmt.Sprintf(`{"run_status":"finished","data_source":"inline","data_csv":%q}`, csv)
		r := httptest.NewRequest("POST", "/runs/"+g.RunID+"/finish", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		isRetried := w.Header().Get("Retry-After") == "300" && w.Header().Get(HeaderUndone) == tc.undone
		if w.Code != http.StatusInsufficientStorage || !isRetried || !strings.Contains(w.Body.String(), tc.text) || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %v %s", name, w.Code, w.Header(), w.Body)
		}
		object := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, csv)}
		if status, answer := put(t, s, object); status != http.StatusInsufficientStorage || !strings.Contains(answer, "<Code>InsufficientStorage</Code>") {
			t.Errorf("%s, PUT: %d %s", name, status, answer)
		}
	}
}

// A registry without room in its quota registers no run.
func TestAnswersOverTheQuota(t *testing.T) {
	r, err := registry.Open(t.Context(), filepath.Join(t.TempDir(), "registry.db"), registry.Config{Quota: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := newServer(t, Config{Registry: r, Objects: &memory{store: map[string]stored{}}})
	if status, answer := api(t, s, "POST", "/runs", "{}"); status != http.StatusInsufficientStorage || !strings.Contains(answer, "serve.quota") {
		t.Errorf("%d %s", status, answer)
	}
}

// While the registry cannot reach its database, the client may try again.
func TestAnswersWithoutDatabase(t *testing.T) {
	s := newServer(t, Config{})
	g := register(t, s)
	w := httptest.NewRecorder()
	s.problems.failWith(w, httptest.NewRequest("GET", "/", nil), fmt.Errorf("%w: /secret/socket", site.ErrAway))
	isRetried := w.Header().Get("Retry-After") == "10" && w.Header().Get(HeaderUndone) == ""
	if w.Code != http.StatusServiceUnavailable || !isRetried || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	memoryOf(s).fault = failing("Put", fmt.Errorf("%w: /secret/socket", site.ErrAway))
	object := signedPut{g: g, path: "/rt/runs/" + g.RunID + "/1", body: packed(t, "a\n"+incompressible()+"\n")}
	if status, answer := put(t, s, object); status != http.StatusServiceUnavailable || !strings.Contains(answer, "<Code>ServiceUnavailable</Code>") {
		t.Errorf("PUT: %d %s", status, answer)
	}
}
