package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/site"
)

// open opens the stores of the site, in the way of a verb.
func (o *options) open(ctx context.Context, open func(context.Context, config.Serve) (*sitestores.Stores, error)) (*sitestores.Stores, error) {
	s, err := o.serveConfig()
	if err != nil {
		return nil, err
	}
	return open(ctx, s)
}

// lakeProgram is the path of rt-lake: next to this program, else in PATH.
func lakeProgram() (string, error) {
	own, err := os.Executable()
	if err == nil {
		path := filepath.Join(filepath.Dir(own), "rt-lake")
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("rt-lake")
	if err != nil {
		return "", sitestores.Misconfigured(fmt.Errorf("install rt-lake, which alone changes the lake: %w", err))
	}
	return path, nil
}

// callLake runs rt-lake, which prints its own messages.
func (o *options) callLake(ctx context.Context, stdout, stderr io.Writer, args ...string) error {
	path, err := lakeProgram()
	if err != nil {
		return err
	}
	if o.isSet("config") {
		args = append(args, "--config", o.config)
	}
	if o.isSet("dir") {
		args = append(args, "--dir", o.dir)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stdout, cmd.Stderr = stdout, stderr
	err = cmd.Run()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("rt-lake %s: %w", args[0], err)
	switch cmd.ProcessState.ExitCode() {
	case exitData:
		return errkind.With(site.ErrDamaged, err)
	case exitConfig:
		return sitestores.Misconfigured(err)
	case cli.ExitUsage:
		return errkind.With(cli.ErrUsage, err)
	}
	return err
}

// forgetInLake does in the lake what was done at the site: runs leave it or get the new names. Then it removes what
// is left of the users, which are runs that the site has no more.
func (o *options) forgetInLake(ctx context.Context, cfg config.Config, users []string, stdout, stderr io.Writer) error {
	if cfg.Serve.Lake == "" {
		return nil
	}
	if sitestores.IsCopy(cfg.Serve, o.dir) {
		fmt.Fprintf(stdout, "the lake is not changed: it belongs to serve.dir, %s\n", cfg.Serve.Dir)
		return nil
	}
	args := []string{"forget"}
	for _, user := range users {
		args = append(args, "--user", user)
	}
	if o.dryRun {
		args = append(args, "--dry-run")
	}
	err := o.callLake(ctx, stdout, stderr, args...)
	if err != nil {
		return fmt.Errorf("the runs may still be in the lake: %w; fix the cause, and start this again", err)
	}
	return nil
}
