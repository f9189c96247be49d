package api

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"runtime/debug"
	"time"
)

// Serve answers requests on the listener until the context ends; then it waits for the
// requests in progress, for at most grace. faults logs errors below HTTP (mostly of
// handshakes) and may be nil.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, grace time.Duration, faults *log.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second, // a body that is read has deadlines of its own, see paced
		WriteTimeout:      writeTimeout,     // and so has a long answer, see pacedWriter
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          faults,
		ConnState:         (&connections{of: map[string]int{}}).state,
	}
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- fmt.Errorf("internal error, please report it; the listener is closed: %v\n%s", p, debug.Stack())
			}
		}()
		ended <- srv.Serve(ln)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(late)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
