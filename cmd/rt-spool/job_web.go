package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	rtcli "github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/internal/errkind"
	"github.com/resource-tracker/rt/site/client"
	"github.com/resource-tracker/rt/spool"
)

func webCommand() *cli.Command {
	return &cli.Command{
		Name:      "web",
		Usage:     "open the page of a job, or of your jobs, in a browser",
		ArgsUsage: "[JOB]",
		Action:    runWeb,
	}
}

// runWeb prints a link that logs a browser in. Where the site does not know who asks, it prints the address of the page.
func runWeb(c *cli.Context) error {
	if c.NArg() > 1 {
		return rtcli.Usage("web takes one JOB, or none for the page of your jobs")
	}
	job, site, err := jobAtSite(c)
	if err != nil {
		return err
	}
	link, err := site.WebLink(c.Context, job)
	hasNoLink := client.IsNotIdentified(err) || client.IsNotFound(err) || errors.Is(err, client.ErrCredential)
	switch {
	case hasNoLink:
		address, failed := pageAddress(c, site.URL(), job)
		if failed != nil {
			return failed
		}
		say(c, "the site gives no link that logs you in, so its page asks who you are: %v", err)
		fmt.Fprintln(c.App.Writer, address)
		return open(c, address)
	case err != nil:
		return err
	}
	fmt.Fprintln(c.App.Writer, link.URL)
	say(c, "the link logs one browser in as you; it works once, and for a minute")
	return openSecret(c, link.URL)
}

func shareCommand() *cli.Command {
	return &cli.Command{
		Name:      "share",
		Usage:     "print a link that shows a job to everyone who has it",
		ArgsUsage: "JOB",
		Action:    runShare,
	}
}

func runShare(c *cli.Context) error {
	if c.NArg() != 1 {
		return rtcli.Usage("share takes one JOB")
	}
	job, site, err := jobAtSite(c)
	if err != nil {
		return err
	}
	link, err := site.ShareLink(c.Context, job)
	if client.IsNotFound(err) {
		return errkind.With(spool.ErrNotFound, fmt.Errorf("no such job: %s is not at %s, or it is of another user; a job appears there when it has begun", job, site.URL()))
	}
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return rtcli.PrintJSON(c.App.Writer, link)
	}
	fmt.Fprintln(c.App.Writer, link.URL)
	say(c, "everyone who has the link can see the page and the report of job %s until %s", job, link.Expires.Local().Format(time.DateTime))
	return nil
}

// jobAtSite returns the job that is the argument, empty for none, and the site to ask.
func jobAtSite(c *cli.Context) (job string, site *client.Client, err error) {
	cfg, err := load(c)
	if err != nil {
		return "", nil, err
	}
	site, err = siteOf(c, cfg.Site)
	if err != nil {
		return "", nil, err
	}
	if site == nil {
		return "", nil, errors.New("there is no page: no service of the site is configured (site.url in rt.toml); rt-job --html FILE JOB makes a page with plots")
	}
	names, err := jobNames(c.Args().Slice())
	switch {
	case err != nil:
		return "", nil, err
	case len(names) == 0:
		return "", site, nil
	case len(names) > 1:
		return "", nil, rtcli.Usage("%s takes one JOB", c.Command.Name)
	}
	job, err = lastJob(c, names[0])
	return job, site, err
}

// pageAddress returns the address of the page of a job, or of the jobs of the user.
func pageAddress(c *cli.Context, base, job string) (string, error) {
	if job == "" {
		return base + "/jobs?" + url.Values{"user": {self()}}.Encode(), nil
	}
	found, err := findUserJob(c, job)
	isNone := err != nil && !errors.Is(err, client.ErrNotArrived)
	if isNone {
		return "", err
	}
	atSite := slices.Concat(found.Runs, found.Live)
	if len(atSite) == 0 {
		return "", found.Close(fmt.Errorf("job %s has no page yet: it appears at the site when the job has ended", job))
	}
	q := url.Values{"id": {strconv.FormatUint(atSite[0].JobID.Or(0), 10)}, "cluster": {atSite[0].Cluster}}
	return base + "/job?" + q.Encode(), found.Close(nil)
}

// opener returns the program that opens an address, empty where there is no screen.
func opener(c *cli.Context) string {
	hasScreen := os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
	program, err := exec.LookPath("xdg-open")
	if !hasScreen || err != nil || !rtcli.IsTerminal(c.App.Writer) {
		return ""
	}
	return program
}

// open opens an address in a browser, and does not wait for it.
func open(c *cli.Context, address string) error {
	program := opener(c)
	if program == "" {
		return nil
	}
	return exec.CommandContext(context.WithoutCancel(c.Context), program, address).Start()
}

// openSecret opens a link that lets its holder in. Other users of the machine see the arguments of programs, so that the
// browser gets it in a file, which only the user can read. XDG_RUNTIME_DIR goes with the login.
func openSecret(c *cli.Context, link string) error {
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" || opener(c) == "" {
		return nil
	}
	path := filepath.Join(dir, "rt-job-web.html")
	page := `<!DOCTYPE html><meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0;url=` + html.EscapeString(link) + `">`
	_ = os.Remove(path) // of an earlier call
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil // the link is printed
	}
	_, err = f.WriteString(page)
	if err := errors.Join(err, f.Close()); err != nil {
		return nil
	}
	return open(c, "file://"+path)
}
