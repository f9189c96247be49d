package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/site/auth"
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
	isOpen := s.Munge != "off" || s.ProxyHeader != "" || s.ReadTokenFile != ""
	if !isOpen {
		if len(s.ProxyFrom) > 0 {
			return nil, errors.New("serve.proxy_from needs serve.proxy_header too")
		}
		return a, nil
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
