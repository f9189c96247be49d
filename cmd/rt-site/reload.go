package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/site/api"
)

// reloadEvery is the interval at which serve checks its files for changes.
const reloadEvery = 5 * time.Second

// secrets has the files of serve that change while it runs: tokens are revoked and certificates
// expire. If a file cannot be read, the previous content stays valid.
type secrets struct {
	conf     config.Serve
	server   *api.Server
	access   *access
	requests *requestLog
	cert     atomic.Pointer[tls.Certificate]
	tokens   []api.Token
	stamps   []string // of the files that were read
}

// open reads the files for the first time, and opens the log of requests.
func (s *secrets) open(logger *log.Logger) (err error) {
	s.requests, err = newRequestLog(s.conf.AccessLog, logger)
	if err == nil {
		s.access, err = newAccess(s.conf)
	}
	if err == nil {
		err = s.read()
	}
	return err
}

// stampOf identifies the content of a file; empty for none.
func stampOf(path string) string {
	st, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprint(st.Sys().(*syscall.Stat_t).Ino, st.Size(), st.ModTime())
}

// now returns the current stamps of all files.
func (s *secrets) now() []string {
	var all []string
	for _, path := range append([]string{s.conf.TokenFile, s.conf.TLSCert, s.conf.TLSKey}, s.access.files()...) {
		if path != "" {
			all = append(all, stampOf(path))
		}
	}
	return all
}

// read reads the files. One that cannot be read does not change, and does not delay the others.
func (s *secrets) read() error {
	s.stamps = s.now() // first: a change during the read counts as another one
	return errors.Join(s.readTokens(), s.readCertificate(), s.access.read())
}

func (s *secrets) readTokens() error {
	text, err := os.ReadFile(s.conf.TokenFile)
	if err != nil {
		return fmt.Errorf("serve.token_file: %w; write the API tokens there, one per line, or give another file by --token-file", err)
	}
	tokens, err := api.ParseTokens(text)
	if err != nil {
		return fmt.Errorf("%s: %w", s.conf.TokenFile, err)
	}
	s.tokens = tokens
	if s.server != nil {
		s.server.SetTokens(tokens)
	}
	return nil
}

func (s *secrets) readCertificate() error {
	if s.conf.TLSCert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(s.conf.TLSCert, s.conf.TLSKey)
	if err != nil {
		return fmt.Errorf("serve.tls_cert: %w", err)
	}
	s.cert.Store(&cert)
	return nil
}

// watch reads the files again when they have changed, and on SIGHUP, until the context ends.
func (s *secrets) watch(ctx context.Context, logger *log.Logger) {
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
			logger.Printf("%v; of a file that is there and cannot be read, the previous content stays valid", err)
			continue
		}
		logger.Printf("tokens and certificate reloaded: %d tokens", len(s.tokens))
	}
}

// certificate is the GetCertificate of a tls.Config.
func (s *secrets) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.cert.Load(), nil
}
