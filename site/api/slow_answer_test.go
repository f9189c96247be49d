package api

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// The time that the server needs to make an answer does not count against the client.
func TestASlowAnswerIsNotASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const parts = 40
		part := bytes.Repeat([]byte("x"), 8<<10)
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			p := &pacedWriter{ResponseWriter: w}
			for range parts {
				time.Sleep(slowStart)
				if _, err := p.Write(part); err != nil {
					t.Error(err)
					return
				}
			}
		})}
		ln := make(pipes)
		ended := make(chan error)
		go func() { ended <- srv.Serve(ln) }()
		c := ln.send(t, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
		answer, err := io.ReadAll(c)
		if err != nil || len(answer) < parts*len(part) {
			t.Errorf("%d bytes, %v", len(answer), err)
		}
		_ = srv.Close()
		<-ended
	})
}
