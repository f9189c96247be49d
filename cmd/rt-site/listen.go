package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt/internal/hostport"
)

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// checkListen checks serve.listen.
func checkListen(address string) error {
	path, isUnix := strings.CutPrefix(address, unixPrefix)
	if isUnix && filepath.IsAbs(path) {
		return nil
	}
	if isUnix {
		return fmt.Errorf("%q: after unix: comes the absolute path of a socket", address)
	}
	return hostport.Check(address, "127.0.0.1:8470")
}

// listen opens the listener of serve.listen. A Unix socket has no TLS.
func (s *secrets) listen() (ln net.Listener, scheme string, err error) {
	if path, isUnix := strings.CutPrefix(s.conf.Listen, unixPrefix); isUnix {
		ln, err = listenUnix(path)
		return ln, "unix", err
	}
	ln, err = net.Listen("tcp", s.conf.Listen)
	if err != nil {
		return nil, "", fmt.Errorf("listen on %s (serve.listen): %w", s.conf.Listen, hostport.ListenError(err))
	}
	if s.conf.TLSCert == "" {
		return ln, "http", nil
	}
	return tls.NewListener(ln, &tls.Config{
		GetCertificate: s.certificate, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
	}), "https", nil
}

// listenUnix listens on a socket for the user and the group of the process. It replaces the socket of a
// process that has ended.
func listenUnix(path string) (net.Listener, error) {
	conn, err := net.Dial("unix", path)
	if err == nil {
		return nil, errors.Join(fmt.Errorf("listen on %s (serve.listen): another program has this socket", path), conn.Close())
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the socket of an earlier process (serve.listen): %w", err)
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (serve.listen): %w", path, hostport.ListenError(err))
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("make the socket accessible to its group: %w", err), ln.Close())
	}
	return ln, nil
}
