// Package minio starts a real MinIO server on loopback for tests of code that uses S3.
package minio

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// The credentials of the server's owner, and its region.
const (
	AccessKey = "owner-of-the-test"
	SecretKey = "a secret of the test alone"
	Region    = "eu-central-1"
)

// Server is a MinIO server. It is killed when its parent process dies.
type Server struct {
	URL string // http://127.0.0.1:<port>

	dir   string
	cmd   *exec.Cmd
	ended chan error
}

// Start starts the server that RT_MINIO names, with an empty store, and waits until it is ready.
func Start() (*Server, error) {
	program := os.Getenv("RT_MINIO")
	if program == "" {
		return nil, errors.New("RT_MINIO must name the MinIO server; make test-s3 builds one and sets it")
	}
	dir, err := os.MkdirTemp("", "rt-s3-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, ended: make(chan error, 1)}
	if err := s.start(program); err != nil {
		text, _ := os.ReadFile(filepath.Join(dir, "log"))
		return nil, errors.Join(fmt.Errorf("start %s: %w\n%s", program, err, text), s.Close())
	}
	return s, nil
}

func (s *Server) start(program string) error {
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, "server", "--quiet", "--address", addr, filepath.Join(s.dir, "data"))
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "MINIO_ROOT_USER="+AccessKey, "MINIO_ROOT_PASSWORD="+SecretKey,
		"MINIO_SITE_REGION="+Region, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.URL = cmd, "http://"+addr
	go func() { s.ended <- cmd.Wait() }()
	return s.ready()
}

// ready waits until the server reports that it is ready, for at most one minute.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/minio/health/cluster", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-tick.C:
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", ctx.Err())
		}
	}
}

// Close kills the server and removes its data.
func (s *Server) Close() error {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.ended
	}
	return os.RemoveAll(s.dir)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
