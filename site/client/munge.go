package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"time"

	"github.com/resource-tracker/rt/internal/printable"
)

// maxCredential limits what munge may print, in bytes.
const maxCredential = 16 << 10

// mungeTimeout limits the running time of munge, which waits for munged.
const mungeTimeout = 10 * time.Second

// ByMunge returns a function that sets a credential of this process's user for one request. The
// payload is the request, and munged accepts it once. socket is munged's socket; empty: the
// default.
func ByMunge(socket string) func(*http.Request) error {
	return func(r *http.Request) error {
		credential, err := munge(r.Context(), socket, Payload(r))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCredential, err)
		}
		r.Header.Set("Authorization", "MUNGE "+credential)
		return nil
	}
}

// Payload returns the text that a MUNGE credential of a request encodes.
func Payload(r *http.Request) string {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	return "rt-site/1\n" + r.Method + "\n" + host + "\n" + r.URL.RequestURI()
}

// munge returns the credential that the program munge prints for a payload on its standard input.
func munge(ctx context.Context, socket, payload string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, mungeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "munge")
	if socket != "" {
		cmd.Args = append(cmd.Args, "--socket="+socket)
	}
	cmd.WaitDelay = time.Second
	out, errs := &prefix{}, &prefix{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(payload), out, errs
	if err := cmd.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", errors.New("the program munge is not installed: install it, or set site.token_file")
		}
		text, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return "", fmt.Errorf("munge: %w: %s", err, printable.Text(text))
	}
	credential := strings.TrimSpace(out.String())
	isWhole := strings.HasPrefix(credential, "MUNGE:") && strings.HasSuffix(credential, ":")
	if !isWhole || strings.ContainsAny(credential, " \r\n\t") {
		return "", errors.New("munge printed no credential")
	}
	return credential, nil
}

// prefix keeps the first bytes that are written.
type prefix struct{ bytes.Buffer }

func (p *prefix) Write(b []byte) (int, error) {
	p.Buffer.Write(b[:min(len(b), maxCredential-p.Len())])
	return len(b), nil
}
