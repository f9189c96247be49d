package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/internal/cli"
	"github.com/resource-tracker/rt/internal/recovery"
	"github.com/resource-tracker/rt/internal/telemetry"
	"github.com/resource-tracker/rt/upload/receiver"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "receive runs: the Sentinel API and an S3-compatible store, with data on this machine's disk",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "listen on `HOST:PORT`; port 0 selects a free one"},
			&cli.StringFlag{Name: "dir", Usage: "keep everything in `DIR`"},
			&cli.StringFlag{Name: "token-file", Usage: "accept the API tokens in `FILE`, one a line"},
		},
		Action: runServe,
	}
}

// shutdown is how long requests under way may take after a signal.
const shutdown = 10 * time.Second

// memoryLimit is the limit, in bytes, above which the Go runtime collects garbage more often and
// returns memory at once. The limits of the requests keep their memory below it.
const memoryLimit = 160 << 20

func runServe(c *cli.Context) (err error) {
	cfg, err := load(c)
	if err != nil {
		return err
	}
	s := cfg.Serve
	for flag, value := range map[string]*string{"listen": &s.Listen, "dir": &s.Dir, "token-file": &s.TokenFile} {
		if c.IsSet(flag) {
			*value = c.String(flag)
		}
	}
	if err := telemetry.CheckHostPort(s.Listen, "127.0.0.1:8470"); err != nil {
		if c.IsSet("listen") {
			return rtcli.Usage("--listen %w", err)
		}
		return misconfigured(fmt.Errorf("serve.listen %w", err))
	}
	files := &secrets{conf: s}
	if err := files.read(); err != nil {
		return misconfigured(err)
	}
	debug.SetMemoryLimit(memoryLimit)
	files.rc, err = receiver.New(receiver.Config{
		Dir: s.Dir, Tokens: files.tokens, MaxObject: int64(s.MaxObject) << 20, MaxRequests: s.MaxRequests,
		ClientRate: float64(s.ClientRate), TokenRate: s.TokenRate.Bytes, Quota: s.Quota.Bytes, TokenQuota: s.TokenQuota.Bytes,
		CredentialLife: s.CredentialLife.Duration,
		Warn:           func(err error) { rtcli.Message(c.App.ErrWriter, "rt-spool", "warning: %v", err) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.rc.Close()) }()
	ln, scheme, err := files.listen()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "listening on %s://%s\n", scheme, ln.Addr())
	if !loopback(ln.Addr()) && scheme == "http" {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: warning: tokens and data cross the network in clear text; set serve.tls_cert and serve.tls_key")
	}
	return files.serve(c.Context, ln, log.New(c.App.ErrWriter, "rt-spool: ", log.LstdFlags))
}

// serve receives until ctx is done, reloads its files and removes old runs.
func (s *secrets) serve(ctx context.Context, ln net.Listener, say *log.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	report := func(err error) { say.Print(err) }
	background.Go(func() {
		defer recovery.Handle(report)
		s.watch(ctx, say)
	})
	if retain := s.conf.Retain.Duration; retain > 0 {
		background.Go(func() {
			defer recovery.Handle(report)
			s.rc.Retain(ctx, retain, report)
		})
	}
	err := receiver.Serve(ctx, ln, s.rc, shutdown, say)
	cancel()
	background.Wait()
	return err
}

func (s *secrets) listen() (net.Listener, string, error) {
	ln, err := net.Listen("tcp", s.conf.Listen)
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s (serve.listen): %w", s.conf.Listen, telemetry.ListenError(err))
	}
	if s.conf.TLSCert == "" {
		return ln, "http", nil
	}
	return tls.NewListener(ln, &tls.Config{
		GetCertificate: s.certificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}), "https", nil
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
