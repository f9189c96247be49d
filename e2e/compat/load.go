package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// startLoad keeps the machine busy at an even rate until the context ends. The function
// that it returns waits for the end and returns the error.
func startLoad(ctx context.Context, dir string) func() error {
	parts := []func(context.Context) error{burn, grow, func(ctx context.Context) error { return readWrite(ctx, dir) }, talk}
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	return func() error {
		var all error
		for range parts {
			if err := <-ended; err != nil {
				all = errors.Join(all, fmt.Errorf("the load: %w", err))
			}
		}
		return all
	}
}

// every calls f at an even rate until the context ends or f fails.
func every(ctx context.Context, d time.Duration, f func() error) error {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if err := f(); err != nil {
			return err
		}
	}
}

// burn uses about half a core, in user mode.
func burn(ctx context.Context) error {
	sum := 1.0
	return every(ctx, 20*time.Millisecond, func() error {
		for end := time.Now().Add(10 * time.Millisecond); time.Now().Before(end); {
			for range 1000 {
				sum = 1 + 1/sum
			}
		}
		return nil
	})
}

// grow holds 128 MiB, and 10 MiB more each second.
func grow(ctx context.Context) error {
	held := make([][]byte, 128, 1<<12)
	touch := func() []byte {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += os.Getpagesize() {
			b[i] = 1
		}
		return b
	}
	for i := range held {
		held[i] = touch()
	}
	return every(ctx, 100*time.Millisecond, func() error {
		if len(held) < cap(held) {
			held = append(held, touch())
		}
		return nil
	})
}

// readWrite writes and reads 10 MiB a second. It bypasses the page cache if possible: the cache would write to the
// disk in bursts.
func readWrite(ctx context.Context, dir string) error {
	path := filepath.Join(dir, "load")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_DIRECT, 0o600)
	if errors.Is(err, unix.EINVAL) {
		f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_SYNC, 0o600)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	const block, blocks = 1 << 20, 64
	b, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned, as O_DIRECT requires
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(b) }()
	for i := range int64(blocks) {
		if _, err := f.WriteAt(b, i*block); err != nil {
			return err
		}
	}
	n := int64(0)
	return every(ctx, 100*time.Millisecond, func() error {
		n++
		if _, err := f.WriteAt(b, n%blocks*block); err != nil {
			return err
		}
		_, err := f.ReadAt(b, (n+blocks/2)%blocks*block)
		return err
	})
}

// talk sends 6 MiB a second over loopback, which both trackers leave out.
func talk(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	b := make([]byte, 64<<10)
	return every(ctx, 10*time.Millisecond, func() error {
		_, err := c.Write(b)
		return err
	})
}
