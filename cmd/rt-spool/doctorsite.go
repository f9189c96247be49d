package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/doctor"
)

// siteEnvironment has the credentials of rt-site.service.
const siteEnvironment = "/etc/rt/site.env"

// localClient returns a client for the service of this machine. The certificate is for the name of the site, and
// the doctor checks it in its file.
func localClient(listen string) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	if path, isUnix := strings.CutPrefix(listen, "unix:"); isUnix {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// examineSite runs rt-site doctor as the user and with the environment of the service.
func examineSite(ctx context.Context, program, configFile string, s config.Serve) (checks []doctor.Check, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--config", configFile, "doctor", "--json")
	cmd.WaitDelay = time.Second
	cmd.Env, err = environmentOf(siteEnvironment)
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(s.Dir); err == nil && os.Geteuid() == 0 {
		owner := st.Sys().(*syscall.Stat_t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	cmd.Dir = "/"
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if _, isExit := errors.AsType[*exec.ExitError](err); isExit {
		err = json.Unmarshal(out, &checks)
		if err != nil {
			err = fmt.Errorf("rt-site doctor: %s", strings.TrimSpace(errs.String()))
		}
		return checks, err
	}
	if err == nil {
		err = json.Unmarshal(out, &checks)
	}
	if err != nil {
		return nil, fmt.Errorf("run rt-site doctor: %w", err)
	}
	return checks, nil
}

// environmentOf returns the environment of this process with the variables of a file of NAME=VALUE lines.
func environmentOf(file string) ([]string, error) {
	env := os.Environ()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return env, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		name, value, isVariable := strings.Cut(strings.TrimSpace(line), "=")
		if isVariable && !strings.HasPrefix(name, "#") {
			env = append(env, name+"="+strings.Trim(value, `"'`))
		}
	}
	return env, nil
}

// siteProgram returns the path of rt-site, which is installed in the directory of this program.
func siteProgram() string {
	exe, err := os.Executable()
	if err != nil {
		return "rt-site"
	}
	return filepath.Join(filepath.Dir(exe), "rt-site")
}
