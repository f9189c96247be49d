package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/upload/receiver"
)

// reloadEvery is how often serve looks whether its files have changed.
const reloadEvery = 5 * time.Second

// secrets are the files of serve that change while it runs: tokens are withdrawn,
// certificates end. What cannot be read leaves what was read before in force.
type secrets struct {
	conf   config.Serve
	rc     *receiver.Receiver
	cert   atomic.Pointer[tls.Certificate]
	tokens []receiver.TokenHash
	stamps []stamp // of the files, as they were read
}

// stamp tells one content of a file from another.
type stamp struct {
	inode uint64
	size  int64
	time  time.Time
}

func stampOf(path string) stamp {
	st, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	s := stamp{size: st.Size(), time: st.ModTime()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}

// now returns the stamps of all the files.
func (s *secrets) now() []stamp {
	var all []stamp
	for _, path := range []string{s.conf.TokenFile, s.conf.TLSCert, s.conf.TLSKey} {
		if path != "" {
			all = append(all, stampOf(path))
		}
	}
	return all
}

// read reads the files; nothing is put in force where one cannot be read.
func (s *secrets) read() error {
	s.stamps = s.now() // before: a change while they are read is another one
	text, err := os.ReadFile(s.conf.TokenFile)
	if err != nil {
		return fmt.Errorf("serve.token_file: %w; put the API tokens there, one a line, or name their file by --token-file", err)
	}
	tokens, err := receiver.ParseTokens(text)
	if err != nil {
		return fmt.Errorf("%s: %w", s.conf.TokenFile, err)
	}
	if s.conf.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(s.conf.TLSCert, s.conf.TLSKey)
		if err != nil {
			return fmt.Errorf("serve.tls_cert: %w", err)
		}
		s.cert.Store(&cert)
	}
	s.tokens = tokens
	if s.rc != nil {
		s.rc.SetTokens(tokens)
	}
	return nil
}

// watch reads the files anew when they have changed, or at SIGHUP, until the
// context ends.
func (s *secrets) watch(ctx context.Context, say *log.Logger) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if slices.Equal(s.stamps, s.now()) {
				continue
			}
		case <-hup:
		}
		if err := s.read(); err != nil {
			say.Printf("%v; what was read before stays in force", err)
			continue
		}
		say.Printf("tokens and certificate are read anew: %d tokens", len(s.tokens))
	}
}

// certificate is for tls.Config.
func (s *secrets) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.cert.Load(), nil
}
