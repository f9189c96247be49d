package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
)

// actAsService returns the section serve of the configuration. It makes root the user of the service, with the environment
// of its unit, so that root can run verify and doctor. The other verbs write into the table audit who ran them.
func (o *options) actAsService() (config.Serve, error) {
	s, err := o.serveConfig()
	isRoot := os.Geteuid() == 0
	if err == nil && isRoot {
		err = addEnvironment(filepath.Join(filepath.Dir(cmp.Or(o.config, config.DefaultPath)), "site.env"))
	}
	if err == nil && isRoot {
		err = sitestores.BecomeOwner(s)
	}
	return s, err
}

// serveConfig returns the section serve of the configuration.
func (o *options) serveConfig() (config.Serve, error) {
	cfg, err := config.Load(o.config)
	if err != nil {
		return cfg.Serve, sitestores.Misconfigured(err)
	}
	if o.isSet("dir") {
		cfg.Serve.Dir = o.dir
	}
	return cfg.Serve, nil
}

// addEnvironment sets the variables of a file of NAME=VALUE lines, except those that are set. The file may be missing.
func addEnvironment(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the environment of the service: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, isVariable := strings.Cut(strings.TrimSpace(line), "=")
		_, isSet := os.LookupEnv(name)
		isNew := isVariable && !isSet && !strings.HasPrefix(name, "#")
		if !isNew {
			continue
		}
		if err := os.Setenv(name, strings.Trim(value, `"'`)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}
