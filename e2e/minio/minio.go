// Package minio starts a real MinIO server on loopback for tests of code that uses S3.
package minio

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	miniogo "github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// The credentials of the server's owner, and its region.
const (
	AccessKey = "owner-of-the-test"
	SecretKey = "a secret of the test alone"
	Region    = "eu-central-1"
)

// uid is the user and the group of the server if the caller is root.
const uid = 65534

// Server is a MinIO server. It is killed when its parent process dies.
type Server struct {
	URL string // http://127.0.0.<n>:<port>

	program, addr, dir string
	cmd                *exec.Cmd
	ended              chan error
}

// Start starts the server that RT_MINIO names, with an empty store, and waits until it is ready. It runs
// without privileges.
func Start() (*Server, error) {
	program := os.Getenv("RT_MINIO")
	if program == "" {
		return nil, errors.New("RT_MINIO must name the MinIO server; contrib/test/s3 builds one and sets it")
	}
	dir, err := os.MkdirTemp("", "rt-s3-")
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, dir: dir}
	if os.Getuid() == 0 {
		err = os.Chown(dir, uid, uid)
	}
	if err == nil {
		s.addr, err = freeAddress()
	}
	if err == nil {
		err = s.Restart()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Restart starts the server after Kill, at the same address, and waits until it is ready.
func (s *Server) Restart() error {
	err := s.start()
	if err == nil {
		return nil
	}
	text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return fmt.Errorf("start %s: %w\n%s", s.program, err, text)
}

func (s *Server) start() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	program, err := os.Open(s.program)
	if err != nil {
		return err
	}
	defer program.Close()
	// By its descriptor: the user of the server may have no access to the directory.
	cmd := exec.Command("/proc/self/fd/3", "server", "--quiet", "--address", s.addr, filepath.Join(s.dir, "data"))
	cmd.ExtraFiles, cmd.Dir = []*os.File{program}, s.dir
	cmd.Env = append(os.Environ(), "HOME="+s.dir, "MINIO_ROOT_USER="+AccessKey, "MINIO_ROOT_PASSWORD="+SecretKey,
		"MINIO_SITE_REGION="+Region, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	s.cmd, s.URL, s.ended = cmd, "http://"+s.addr, ended
	go func() { ended <- cmd.Wait() }()
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

// MakeBucket makes an empty bucket.
func (s *Server) MakeBucket(ctx context.Context, name string) error {
	client, err := miniogo.New(s.addr, &miniogo.Options{Creds: credentials.NewStaticV4(AccessKey, SecretKey, ""), Region: Region})
	if err != nil {
		return err
	}
	return client.MakeBucket(ctx, name, miniogo.MakeBucketOptions{Region: Region})
}

// Kill kills the server.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill() // it may have ended
		<-s.ended
		s.cmd = nil
	}
}

// Close kills the server and removes its data.
func (s *Server) Close() error {
	s.Kill()
	return os.RemoveAll(s.dir)
}

// freeAddress returns an address that outgoing connections do not take while the server is dead: those
// to 127.0.0.0/8 are from 127.0.0.1.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:0", 2+rand.IntN(250)))
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
