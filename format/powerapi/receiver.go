package powerapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"sync"
	"time"

	"github.com/resource-tracker/rt/internal/recovery"
)

// maxSensors is how many sensors may send at the same time; more are refused.
const maxSensors = 64

// Receiver writes the valid reports of other sensors to out, in the format of import.
type Receiver struct {
	log   *log.Logger
	slots chan struct{}

	mu     sync.Mutex
	out    io.Writer
	kept   int64
	failed error // of out
}

// NewReceiver returns a receiver that writes one report a line to out.
func NewReceiver(out io.Writer, log *log.Logger) *Receiver {
	return &Receiver{out: out, log: log, slots: make(chan struct{}, maxSensors)}
}

// Serve receives until ctx is done or out fails.
func (r *Receiver) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sensors sync.WaitGroup
	defer sensors.Wait()
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })() // its error does not matter at the end
	for {
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			return r.broken()
		case err != nil:
			r.log.Printf("accept a sensor: %v", err)
			time.Sleep(100 * time.Millisecond) // perhaps no descriptor is left
			continue
		}
		select {
		case r.slots <- struct{}{}:
		default:
			r.log.Printf("%s: there are %d sensors already", conn.RemoteAddr(), maxSensors)
			_ = conn.Close()
			continue
		}
		sensors.Go(func() {
			defer recovery.Handle(func(err error) { r.log.Print(err) })
			defer func() { <-r.slots }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			if !r.receive(conn) {
				cancel()
			}
			_ = conn.Close() // everything was read
		})
	}
}

// Kept returns how many reports were written.
func (r *Receiver) Kept() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept
}

func (r *Receiver) broken() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// receive keeps the reports of one sensor, and reports whether out can take more.
func (r *Receiver) receive(conn net.Conn) bool {
	for report, err := range DecodeJSON(conn) {
		if err == nil {
			var line []byte
			line, err = report.AppendJSON(nil, ISO)
			if err == nil && !r.keep(line) {
				return false
			}
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			r.log.Printf("%s: %v", conn.RemoteAddr(), err)
		}
	}
	return true
}

func (r *Receiver) keep(line []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == nil {
		if _, err := r.out.Write(line); err != nil {
			r.failed = fmt.Errorf("keep reports: %w", err)
		} else {
			r.kept++
		}
	}
	return r.failed == nil
}
