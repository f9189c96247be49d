package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/internal/hostport"
	"github.com/resource-tracker/rt/site/auth"
	"github.com/resource-tracker/rt/site/registry"
)

// access is who may read. Its files are read again when they change.
type access struct {
	tokenFile, coordinatorFile string
	readers                    *auth.Readers // nil: no one
	coordinators               *auth.File
}

// newAccess returns the readers of a configuration.
func newAccess(s config.Serve) (*access, error) {
	a := &access{tokenFile: s.ReadTokenFile}
	isOpen := s.Munge != "off" || s.ProxyHeader != "" || s.ReadTokenFile != "" || s.OIDCIssuer != ""
	if !isOpen {
		if len(s.ProxyFrom) > 0 {
			return nil, errors.New("serve.proxy_from needs serve.proxy_header too")
		}
		return a, nil
	}
	if hostport.CrossesNetwork(s.OIDCIssuer) {
		return nil, errors.New("serve.oidc_issuer does not begin with https://: others could answer for the provider")
	}
	c := auth.Config{
		ProxyHeader: s.ProxyHeader, ProxyFrom: s.ProxyFrom, Operators: s.Operators,
	}
	if s.Munge != "off" {
		program, err := exec.LookPath("unmunge")
		if err != nil {
			return nil, fmt.Errorf("serve.munge: %w; install MUNGE, or set serve.munge to \"off\"", err)
		}
		socket := s.Munge
		if socket == "on" {
			socket = ""
		}
		c.Munge = auth.NewMunge(program, socket)
	}
	switch s.Coordinators {
	case "":
	case "sacctmgr":
		program, err := exec.LookPath("sacctmgr")
		if err != nil {
			return nil, fmt.Errorf("serve.coordinators: %w", err)
		}
		c.Coordinators = auth.NewSacctmgr(program)
	default:
		a.coordinatorFile, a.coordinators = s.Coordinators, &auth.File{}
		c.Coordinators = a.coordinators
	}
	readers, err := auth.New(c)
	a.readers = readers
	return a, err
}

// openSessions lets browsers in, with what a registry knows of them. There are none without readers.
func (a *access) openSessions(ctx context.Context, r *registry.Registry, s config.Serve) (*auth.Sessions, error) {
	if a.readers == nil {
		return nil, nil
	}
	key, err := r.Settings.Secret(ctx, "share", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("read the key of the links that share a job: %w", err)
	}
	c := auth.SessionConfig{Store: r.Sessions, Key: key, URL: s.URL, ShareLife: s.ShareLife.Duration}
	if s.OIDCIssuer != "" {
		sso := auth.SSOConfig{Issuer: s.OIDCIssuer, ClientID: s.OIDCClient, Claim: s.OIDCClaim, Scopes: strings.Fields(s.OIDCScopes)}
		if s.OIDCSecret != "" {
			text, err := file.ReadSmall(s.OIDCSecret, file.SmallLimit)
			if err != nil {
				return nil, sitestores.Misconfigured(fmt.Errorf("serve.oidc_secret_file: %w", err))
			}
			line, _, _ := strings.Cut(string(text), "\n")
			sso.ClientSecret = strings.TrimSpace(line)
		}
		c.SSO = auth.NewSSO(sso)
	}
	sessions, err := auth.NewSessions(c)
	if err != nil {
		return nil, sitestores.Misconfigured(err)
	}
	a.readers.UseSessions(sessions)
	return sessions, nil
}

// files returns the files that read reads.
func (a *access) files() []string {
	if a == nil {
		return nil
	}
	return []string{a.tokenFile, a.coordinatorFile}
}

// read reads the tokens and the coordinators. If one of the files cannot be read, its previous content
// stays valid. Without the file of tokens there is none.
func (a *access) read() error {
	if a == nil || a.readers == nil {
		return nil
	}
	return errors.Join(a.readTokens(), a.readCoordinators())
}

func (a *access) readTokens() error {
	if a.tokenFile == "" {
		return nil
	}
	text, err := os.ReadFile(a.tokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		a.readers.SetTokens(nil)
		return fmt.Errorf("serve.read_token_file: %w: no read token is valid", err)
	}
	if err != nil {
		return fmt.Errorf("serve.read_token_file: %w", err)
	}
	tokens, err := auth.ParseTokens(text)
	if err != nil {
		return fmt.Errorf("%s: %w", a.tokenFile, err)
	}
	a.readers.SetTokens(tokens)
	return nil
}

func (a *access) readCoordinators() error {
	if a.coordinatorFile == "" {
		return nil
	}
	text, err := os.ReadFile(a.coordinatorFile)
	if err != nil {
		return fmt.Errorf("serve.coordinators: %w", err)
	}
	if err := a.coordinators.Set(text); err != nil {
		return fmt.Errorf("%s: %w", a.coordinatorFile, err)
	}
	return nil
}
