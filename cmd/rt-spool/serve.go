package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/upload/receiver"
)

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "receive runs: the Sentinel API and an S3-compatible store, with data on this machine's disk",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "listen on `HOST:PORT`; port 0 takes a free one"},
			&cli.StringFlag{Name: "dir", Usage: "keep everything in `DIR`"},
			&cli.StringFlag{Name: "token-file", Usage: "take the API tokens of `FILE`, one a line"},
		},
		OnUsageError: onUsageError,
		Action:       runServe,
	}
}

// shutdown is how long requests that are under way may take when serve is told to stop.
const shutdown = 10 * time.Second

func runServe(c *cli.Context) error {
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
	text, err := os.ReadFile(s.TokenFile)
	if err != nil {
		return misconfigured(fmt.Errorf("serve.token_file: %w; put the API tokens there, one a line", err))
	}
	tokens, err := receiver.ParseTokens(text)
	if err != nil {
		return misconfigured(fmt.Errorf("%s: %w", s.TokenFile, err))
	}
	handler, err := receiver.New(receiver.Config{Dir: s.Dir, Tokens: tokens})
	if err != nil {
		return err
	}
	ln, scheme, err := listen(s)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "listening on %s://%s\n", scheme, ln.Addr())
	if !loopback(ln.Addr()) && scheme == "http" {
		fmt.Fprintln(c.App.ErrWriter, "rt-spool: warning: tokens and data cross the network in clear text; set serve.tls_cert and serve.tls_key")
	}
	return receiver.Serve(c.Context, ln, handler, shutdown, log.New(c.App.ErrWriter, "rt-spool: ", log.LstdFlags))
}

func listen(s config.Serve) (net.Listener, string, error) {
	if (s.TLSCert == "") != (s.TLSKey == "") {
		return nil, "", misconfigured(errors.New("serve.tls_cert and serve.tls_key belong together: set both or neither"))
	}
	ln, err := net.Listen("tcp", s.Listen)
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s (serve.listen): %w", s.Listen, err)
	}
	if s.TLSCert == "" {
		return ln, "http", nil
	}
	cert, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
	if err != nil {
		return nil, "", misconfigured(errors.Join(fmt.Errorf("serve.tls_cert: %w", err), ln.Close()))
	}
	return tls.NewListener(ln, &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}), "https", nil
}

func loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
