package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/internal/hostport"
	"github.com/resource-tracker/rt/internal/recovery"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/report/html"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/api"
	"github.com/resource-tracker/rt/site/page"
	sitereport "github.com/resource-tracker/rt/site/report"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// mostLogo is the largest size of a logo, in bytes.
const mostLogo = 256 << 10

// readLogo reads the logo of the site, none for an empty path.
func readLogo(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	image, err := os.ReadFile(path)
	if err == nil && len(image) > mostLogo {
		err = fmt.Errorf("%s has %d bytes, more than %d", path, len(image), mostLogo)
	}
	if err != nil {
		return nil, fmt.Errorf("serve.logo: %w", err)
	}
	return image, nil
}

// shutdown is how long requests under way may take after a signal.
const shutdown = 10 * time.Second

// memoryLimit is the limit, in bytes, above which the Go runtime collects garbage more often and
// returns memory at once. The limits of the requests keep their memory below it. The process takes some
// 30 MiB more, for the threads and the pages of SQLite.
const memoryLimit = 112 << 20

// garbage is how much garbage the Go runtime permits below memoryLimit, in percent of the memory in use. At the default
// of 100 it takes a sixth of the processor time.
const garbage = 200

// serve receives runs until ctx is done.
func serve(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	cfg, err := config.Load(o.config)
	if err != nil {
		return sitestores.Misconfigured(err)
	}
	s := cfg.Serve
	for flag, set := range map[string]struct{ to, value *string }{"listen": {&s.Listen, &o.listen}, "dir": {&s.Dir, &o.dir}, "token-file": {&s.TokenFile, &o.tokenFile}} {
		if o.isSet(flag) {
			*set.to = *set.value
		}
	}
	if err := checkListen(s.Listen); err != nil {
		if o.isSet("listen") {
			return cli.Usage("--listen %w", err)
		}
		return sitestores.Misconfigured(fmt.Errorf("serve.listen %w", err))
	}
	logger := log.New(stderr, "rt-site: ", log.LstdFlags)
	files := &secrets{conf: s}
	if err := files.open(logger); err != nil {
		return sitestores.Misconfigured(err)
	}
	debug.SetMemoryLimit(memoryLimit)
	debug.SetGCPercent(garbage)
	counts := api.NewMetrics()
	st, err := sitestores.Open(ctx, s, counts.DatabaseFailed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if err := st.Registry.SetPrices(ctx, pricesOf(cfg.Waste)); err != nil {
		return err
	}
	logo, err := readLogo(s.Logo)
	if err != nil {
		return sitestores.Misconfigured(err)
	}
	sessions, err := files.access.openSessions(ctx, st.Registry, s)
	if err != nil {
		return err
	}
	reports := files.reports(o.config, st.Temp)
	files.server, err = api.New(ctx, api.Config{
		Pages:    page.New(page.Config{Registry: st.Registry, Sessions: sessions, Report: reports.Write, ReportPolicy: html.Policy, PartPolicy: html.PartPolicy, Name: s.Name, Logo: logo, Colors: colorsOf(cfg.Waste), Fault: func(err error) { logger.Print(err) }}),
		Registry: st.Registry, Objects: heldObjects{counts.CountingStore(st.Objects), st.Registry.Settings}, Temp: st.Temp,
		Metrics: counts.Answering(st.Registry, s.Lake != ""), Finished: func(f site.Finish) { counts.Finished(outcomeOf(f)) },
		Tokens: files.tokens, MaxObject: int64(s.MaxObject) << 20, MaxRequests: s.MaxRequests,
		ClientRate: float64(s.ClientRate), TokenRate: s.TokenRate.Bytes, CredentialLife: s.CredentialLife.Duration,
		RunOf: runOf, Readers: files.access.readers, Report: reports.Write,
		Fault: func(err error) { logger.Print(err) },
	})
	if err != nil {
		return sitestores.NotOwner(err)
	}
	ln, scheme, err := files.listen()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "listening on %s://%s\n", scheme, ln.Addr())
	isOpen := ln.Addr().Network() == "tcp" && !hostport.IsLoopback(ln.Addr())
	if isOpen && scheme == "http" {
		cli.Message(stderr, "rt-site", "warning: tokens and data cross the network in clear text; set serve.tls_cert and serve.tls_key")
	}
	err = files.serve(ctx, ln, counts.Counting(files.server, files.server.Route), logger)
	return errors.Join(err, files.server.Close())
}

func pricesOf(w config.Waste) rtreport.Prices {
	return rtreport.Prices{GPU: w.GPU, GiB: w.GiB, CoreHour: w.CoreHour, Currency: w.Currency}
}

func colorsOf(w config.Waste) rtreport.Colors {
	return rtreport.Colors{On: true, Wasteful: w.Wasteful, Harmful: w.Harmful}
}

// reports makes the reports of jobs, each in a process of its own.
func (s *secrets) reports(configFile, temp string) *sitereport.Maker {
	return sitereport.New(sitereport.Maker{
		Open: func(ctx context.Context, runID string) (io.ReadCloser, error) {
			return s.server.OpenRecord(ctx, runID)
		},
		Command: renderCommand(configFile), Temp: temp,
	})
}

// outcomeOf returns the outcome in the summary of a finish, or else what its status says.
func outcomeOf(f site.Finish) rt.Outcome {
	var summary struct {
		Run struct {
			Outcome rt.Outcome `json:"outcome"`
		} `json:"run"`
	}
	err := json.Unmarshal(f.Summary, &summary)
	if err != nil || summary.Run.Outcome == rt.OutcomeNone {
		return rt.Outcome(f.RunStatus)
	}
	return summary.Run.Outcome
}

// runOf reads a complete record to its end, and returns its run.
func runOf(record io.Reader) (rt.Run, error) {
	run, err := archive.Check(record)
	if errors.Is(err, spool.ErrNewer) {
		err = fmt.Errorf("%w: %w", site.ErrNewer, err)
	}
	return run, err
}

// serve receives until ctx is done or the object store is lost to another copy of the registry, reloads its
// files and removes old runs.
func (s *secrets) serve(ctx context.Context, ln net.Listener, handler http.Handler, logger *log.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	report := func(err error) { logger.Print(err) }
	background.Go(func() {
		defer recovery.Handle(report)
		s.watch(ctx, logger)
	})
	var lost error // the object store
	background.Go(func() {
		defer recovery.Handle(report)
		lost = s.server.Retain(ctx, api.Ages{Runs: s.conf.RetainRuns.Duration, Records: s.conf.RetainRecords.Duration, CSV: s.conf.RetainCSV.Duration})
		if lost != nil {
			cancel()
		}
	})
	err := api.Serve(ctx, ln, api.Reporting(handler, s.requests.write), shutdown, logger)
	s.requests.log.close()
	cancel()
	background.Wait()
	return errors.Join(sitestores.NotOwner(lost), err)
}
