package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/upload/drain"
	"github.com/resource-tracker/rt/upload/s3"
	"github.com/resource-tracker/rt/upload/sentinel"
	"github.com/resource-tracker/rt/upload/streaming"
)

// connect returns the configured receiver and its clients.
func connect(cfg config.Sentinel) (to drain.Receiver, client *sentinel.Client, store *s3.Uploader, err error) {
	to, err = destination(cfg)
	if err == nil {
		client, store, err = to.Connect()
	}
	if err != nil {
		err = misconfigured(err)
	}
	return to, client, store, err
}

// destination returns where to send. A receiver that the environment names replaces the
// configured one as a whole, with its token. The error says what is not configured.
func destination(cfg config.Sentinel) (drain.Receiver, error) {
	if endpoint := os.Getenv(streaming.EnvEndpoint); endpoint != "" {
		token := os.Getenv(streaming.EnvToken)
		if token == "" {
			return drain.Receiver{}, fmt.Errorf("nothing is sent because %s is set without a token: set %s too", streaming.EnvEndpoint, streaming.EnvToken)
		}
		return drain.Receiver{Endpoint: endpoint, Token: token, S3Endpoint: drain.S3Endpoint(os.Getenv)}, nil
	}
	if cfg.Endpoint == "" {
		return drain.Receiver{}, fmt.Errorf("nothing is sent because no receiver is configured: set endpoint in [sentinel] of rt.toml, or %s", streaming.EnvEndpoint)
	}
	token, err := readToken(cfg.TokenFile)
	if err != nil {
		return drain.Receiver{}, err
	}
	return drain.Receiver{
		Endpoint: cfg.Endpoint, Token: token, Dialect: cfg.Dialect,
		S3Endpoint: cmp.Or(cfg.S3Endpoint, drain.S3Endpoint(os.Getenv)), S3Region: cfg.S3Region, CAFile: cfg.CAFile,
	}, nil
}

// dialectOf returns the dialect of the registration. A receiver that the environment names does not
// get the configured receiver's dialect.
func dialectOf(cfg config.Sentinel) string {
	if os.Getenv(streaming.EnvEndpoint) != "" {
		return ""
	}
	return cfg.Dialect
}

// privacyOf returns which names leave for the receiver. A receiver that the environment names has no
// part in the section of the configured one.
func privacyOf(cfg config.Config) (drain.Privacy, error) {
	p := cfg.Privacy
	if os.Getenv(streaming.EnvEndpoint) == "" {
		p = p.For(cfg.Sentinel)
	}
	out := drain.Privacy{
		Users: drain.Disclosure(p.Users), Jobs: drain.Disclosure(p.Jobs),
		Directories: drain.Disclosure(p.Directories), Commands: drain.Disclosure(p.Commands),
	}
	if !p.NeedsKey() {
		return out, nil
	}
	var err error
	out.Key, err = drain.ReadKey(p.KeyFile)
	if err != nil {
		return out, misconfigured(fmt.Errorf("nothing is sent: %w", err))
	}
	return out, nil
}

// readToken returns the first line of the file, or else SENTINEL_API_TOKEN.
func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if token := strings.TrimSpace(os.Getenv(streaming.EnvToken)); token != "" {
			return token, nil
		}
		return "", fmt.Errorf("nothing is sent because there is no token: put it into %s (sentinel.token_file of rt.toml), or set SENTINEL_API_TOKEN", file)
	}
	if err != nil {
		return "", fmt.Errorf("sentinel.token_file: %w", err)
	}
	token, _, _ := strings.Cut(string(text), "\n")
	token = strings.TrimSpace(token)
	if token == "" {
		return "", fmt.Errorf("sentinel.token_file: the first line of %s is empty; the token belongs there", file)
	}
	return token, nil
}
