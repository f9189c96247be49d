package powerapi

import (
	"bytes"
	"context"
	"errors"
	"log"
	"net"
	"strings"
	"sync"
	"testing"
)

// The reports of two sensors are written for a file input. A document that is no report is
// skipped, and one that is no JSON ends its connection.
func TestListen(t *testing.T) {
	var out, logged bytes.Buffer
	var mu sync.Mutex
	say := writerFunc(func(b []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return logged.Write(b) })
	r := NewReceiver(&out, log.New(say, "", 0))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := r.Serve(ctx, ln); err != nil {
			t.Error(err)
		}
	})
	for _, text := range []string{
		`{"timestamp":1610531482630,"sensor":"n1","target":"all","power":1}` + "\n" + `{"power":2}` + "\n" + `{"timestamp":1610531482630,"sensor":"n1","target":"all","power":3}` + "\n",
		`{"timestamp":1610531482630,"sensor":"n2","target":"all","power":4}` + "\n" + `nonsense {"timestamp":1,"sensor":"n2","target":"all","power":5}`,
	} {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Read(make([]byte, 1)) // until it has read all
		_ = conn.Close()
	}
	cancel()
	done.Wait()
	if n := strings.Count(out.String(), "\n"); n != 3 || r.kept != 3 || strings.Contains(out.String(), `"power":5`) {
		t.Errorf("kept %d:\n%s", r.kept, out.String())
	}
	if !strings.Contains(logged.String(), "no timestamp") || !strings.Contains(logged.String(), "not JSON") {
		t.Errorf("logged %s", logged.String())
	}
	made, err := Import(t.TempDir(), nil, nil, "kept.json", &out, func(string, ...any) {})
	if err != nil || len(made) != 2 {
		t.Errorf("import made %v, %v", made, err)
	}
}

func TestListenFullDisk(t *testing.T) {
	full := errors.New("no space left")
	r := NewReceiver(writerFunc(func([]byte) (int, error) { return 0, full }), log.New(writerFunc(func(b []byte) (int, error) { return len(b), nil }), "", 0))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(`{"timestamp":1,"sensor":"n1","target":"all","power":1}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if err := r.Serve(t.Context(), ln); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}
