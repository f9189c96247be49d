// Package munged starts the daemon of MUNGE in tests.
package munged

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const program = "/usr/sbin/munged"

// Start starts a munged with a key of its own and returns its socket. As root it runs as another user: it refuses to run
// with what root leaves to others. Without the program the test is skipped.
func Start(t *testing.T) (socket string) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs munged, of the Debian package munge")
	}
	dir, err := os.MkdirTemp("", "rt-munge-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	key := filepath.Join(dir, "key")
	secret := make([]byte, 1024)
	rand.Read(secret)
	if err := errors.Join(os.WriteFile(key, secret, 0o600), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "socket")
	cmd := exec.Command(program, "--foreground", "--key-file="+key, "--socket="+socket,
		"--pid-file="+dir+"/pid", "--log-file="+dir+"/log", "--seed-file="+dir+"/seed")
	if os.Geteuid() == 0 {
		nobody := uint32(65534)
		if err := errors.Join(os.Chown(dir, int(nobody), -1), os.Chown(key, int(nobody), -1)); err != nil {
			t.Fatal(err)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	messages, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	listens := make(chan bool, 1)
	ended := make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(messages); lines.Scan(); {
			fmt.Fprintln(&printed, lines.Text())
			if strings.Contains(lines.Text(), "work threads") { // the socket is there before
				listens <- true
			}
		}
		close(listens)
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	if !<-listens {
		t.Fatalf("munged has ended: %s", printed.String())
	}
	return socket
}
