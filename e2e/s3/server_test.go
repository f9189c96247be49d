//go:build s3

package s3

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/resource-tracker/rt/upload"
)

const (
	region = "eu-central-1"
	bucket = "metrics"
)

// owner has the root credentials of the server; uploads use session credentials.
var owner = upload.Credentials{AccessKey: "owner-of-the-test", SecretKey: "a secret of the test alone", Region: region}

// store is the server of all tests of the package.
var store *client

func TestMain(m *testing.M) {
	status, err := withServer(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		status = 1
	}
	os.Exit(status)
}

func withServer(tests func() int) (int, error) {
	program := os.Getenv("RT_MINIO")
	if program == "" {
		return 0, fmt.Errorf("RT_MINIO must name the MinIO server; make test-s3 builds one and sets it")
	}
	dir, err := os.MkdirTemp("", "rt-s3-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	addr, err := freeAddress()
	if err != nil {
		return 0, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return 0, err
	}
	defer log.Close()
	server := exec.Command(program, "server", "--quiet", "--address", addr, filepath.Join(dir, "data"))
	server.Env = append(os.Environ(), "HOME="+dir, "MINIO_ROOT_USER="+owner.AccessKey, "MINIO_ROOT_PASSWORD="+owner.SecretKey,
		"MINIO_SITE_REGION="+region, "MINIO_BROWSER=off", "MINIO_UPDATE=off")
	server.Stdout, server.Stderr = log, log
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	defer func() {
		_ = server.Process.Kill()
		<-ended
	}()

	store = &client{base: "http://" + addr}
	if err := store.ready(ended); err != nil {
		text, _ := os.ReadFile(log.Name())
		return 0, fmt.Errorf("start %s: %w\n%s", program, err, text)
	}
	if _, err := store.do(http.MethodPut, "/"+bucket, "", "", "s3", owner); err != nil {
		return 0, fmt.Errorf("make the bucket: %w", err)
	}
	return tests(), nil
}

// ready waits until the server reports that it is ready, for at most one minute.
func (c *client) ready(ended chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/minio/health/cluster", nil)
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
		case err := <-ended:
			ended <- err
			return fmt.Errorf("it ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", ctx.Err())
		}
	}
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
