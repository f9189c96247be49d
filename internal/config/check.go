package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// check returns the first value that is out of its range, nil if there is none.
func (c *Config) check() *keyError {
	for _, part := range [...]func() *keyError{c.checkPaths, c.checkDurations, c.checkNumbers, c.checkSizes, c.checkWords, c.checkEnergy} {
		if bad := part(); bad != nil {
			return bad
		}
	}
	return nil
}

// checkPaths checks that paths are absolute: hooks and cron jobs run in an arbitrary
// directory.
func (c *Config) checkPaths() *keyError {
	paths := []struct {
		key, value string
		optional   bool
	}{
		{"spool.dir", c.Spool.Dir, false},
		{"tracker.path", c.Tracker.Path, true},
		{"tracker.state_dir", c.Tracker.StateDir, false},
		{"tracker.host_cache", c.Tracker.HostCache, true},
		{"hooks.disable_file", c.Hooks.DisableFile, true},
		{"sentinel.token_file", c.Sentinel.TokenFile, true},
		{"sentinel.ca_file", c.Sentinel.CAFile, true},
		{"serve.dir", c.Serve.Dir, false},
		{"serve.token_file", c.Serve.TokenFile, true},
		{"serve.tls_cert", c.Serve.TLSCert, true},
		{"serve.tls_key", c.Serve.TLSKey, true},
	}
	for _, p := range paths {
		isUnset := p.value == "" && p.optional
		if !isUnset && !filepath.IsAbs(p.value) {
			return &keyError{p.key, fmt.Sprintf("%q is not an absolute path", p.value)}
		}
	}
	if c.Log.Target != "syslog" && !filepath.IsAbs(c.Log.Target) {
		return &keyError{"log.target", fmt.Sprintf("%q is neither \"syslog\" nor an absolute path", c.Log.Target)}
	}
	return nil
}

func (c *Config) checkDurations() *keyError {
	const day = 24 * time.Hour
	spans := []struct {
		key             string
		value           Duration
		least, greatest time.Duration
	}{
		{"spool.commit_interval", c.Spool.CommitInterval, time.Second, time.Hour},
		{"spool.retain", c.Spool.Retain, 0, 3660 * day},
		{"tracker.interval", c.Tracker.Interval, 100 * time.Millisecond, day},
		{"tracker.first_interval", c.Tracker.FirstInterval, 100 * time.Millisecond, day},
		{"tracker.first_for", c.Tracker.FirstFor, 0, day},
		{"tracker.grace", c.Tracker.Grace, time.Second, day},
		// A Prolog delays its job and an Epilog keeps its node, so both are short.
		{"hooks.ready_timeout", c.Hooks.ReadyTimeout, time.Millisecond, 30 * time.Second},
		{"hooks.stop_timeout", c.Hooks.StopTimeout, time.Millisecond, time.Minute},
		{"hooks.breaker_reset", c.Hooks.BreakerReset, time.Second, 30 * day},
		{"drain.deadline", c.Drain.Deadline, time.Second, 7 * day},
		{"drain.jitter", c.Drain.Jitter, 0, day},
		{"drain.sacct_deadline", c.Drain.SacctDeadline, time.Second, 10 * time.Minute},
		{"drain.sacct_wait", c.Drain.SacctWait, 0, day},
		{"serve.credential_life", c.Serve.CredentialLife, time.Minute, 30 * day},
		{"serve.retain", c.Serve.Retain, 0, 36600 * day},
	}
	for _, s := range spans {
		if s.value.Duration < s.least || s.value.Duration > s.greatest {
			return &keyError{s.key, fmt.Sprintf("%s is not between %s and %s", s.value, s.least, s.greatest)}
		}
	}
	return nil
}

func (c *Config) checkNumbers() *keyError {
	numbers := []struct {
		key                    string
		value, least, greatest int
	}{
		{"tracker.top_processes", c.Tracker.TopProcesses, 0, 1000},
		{"hooks.breaker_failures", c.Hooks.BreakerFailures, 1, 1_000_000},
		{"drain.concurrency", c.Drain.Concurrency, 1, 256},
		{"drain.batch_rows", c.Drain.BatchRows, 1, 1_000_000},
		{"serve.max_object_mib", c.Serve.MaxObject, 1, 4096},
		{"serve.max_requests", c.Serve.MaxRequests, 1, 100_000},
		{"serve.client_rate", c.Serve.ClientRate, 0, 1_000_000},
		{"powerapi.queue", c.PowerAPI.Queue, 1, 10_000_000},
	}
	for _, n := range numbers {
		if n.value < n.least || n.value > n.greatest {
			return &keyError{n.key, fmt.Sprintf("%d is not between %d and %d", n.value, n.least, n.greatest)}
		}
	}
	if b := c.Tracker.BudgetCPU; !isBetween(b, 0, 100) {
		return &keyError{"tracker.budget_cpu", fmt.Sprintf("%v is not between 0 and 100", b)}
	}
	return nil
}

// isBetween is false for NaN.
func isBetween(v, least, greatest float64) bool { return v >= least && v <= greatest }

// checkSizes checks that a quota has room for what thinning keeps: the newest snapshots, and
// the log next to the file.
func (c *Config) checkSizes() *keyError {
	const least = 1 << 20
	for _, s := range [...]struct {
		key   string
		value Size
	}{{"spool.quota_run", c.Spool.QuotaRun}, {"spool.quota_node", c.Spool.QuotaNode}, {"tracker.flight_recorder", c.Tracker.FlightRecorder}} {
		if s.value.Bytes != 0 && s.value.Bytes < least {
			return &keyError{s.key, fmt.Sprintf("%s is less than %s and not \"0\"", s.value, Size{least})}
		}
	}
	return nil
}

func (c *Config) checkWords() *keyError {
	if _, _, err := parseAccess(c.Spool.Access); err != nil {
		return &keyError{"spool.access", err.Error()}
	}
	switch c.Sentinel.Dialect {
	case "spec", "live", "auto":
	default:
		return &keyError{"sentinel.dialect", fmt.Sprintf("%q is none of \"spec\", \"live\" and \"auto\"", c.Sentinel.Dialect)}
	}
	switch c.Drain.Scope {
	case "job", "node":
	default:
		return &keyError{"drain.scope", fmt.Sprintf("%q is neither \"job\" nor \"node\"", c.Drain.Scope)}
	}
	if w := c.Drain.Sacct; w != "auto" && w != "off" && !filepath.IsAbs(w) {
		return &keyError{"drain.sacct", fmt.Sprintf("%q is neither \"auto\" nor \"off\" nor an absolute path", w)}
	}
	for _, url := range [...][2]string{{"sentinel.endpoint", c.Sentinel.Endpoint}, {"sentinel.s3_endpoint", c.Sentinel.S3Endpoint}} {
		if url[1] != "" && !strings.HasPrefix(url[1], "https://") && !strings.HasPrefix(url[1], "http://") {
			return &keyError{url[0], fmt.Sprintf("%q does not begin with https:// or http://", url[1])}
		}
	}
	if c.Serve.TLSCert != "" && c.Serve.TLSKey == "" {
		return &keyError{"serve.tls_cert", "needs serve.tls_key too"}
	}
	if c.Serve.TLSKey != "" && c.Serve.TLSCert == "" {
		return &keyError{"serve.tls_key", "needs serve.tls_cert too"}
	}
	if c.Spool.User == "" {
		return &keyError{"spool.user", "must name a user"}
	}
	return nil
}

func (c *Config) checkEnergy() *keyError {
	if w := c.Energy.Source; w != "auto" && w != "off" {
		return &keyError{"energy.source", fmt.Sprintf("%q is neither \"auto\" nor \"off\"", w)}
	}
	if w := c.Energy.IdleWatts; !isBetween(w, 0, 1e6) {
		return &keyError{"energy.idle_watts", fmt.Sprintf("%v is not between 0 and 1000000", w)}
	}
	if g := c.Energy.CO2e; !isBetween(g, 0, 1e5) {
		return &keyError{"energy.co2e_grams_per_kwh", fmt.Sprintf("%v is not between 0 and 100000", g)}
	}
	if s := c.PowerAPI.Socket; s != "" {
		// Not package net: hooks and trackers parse this file too and must not link it.
		if colon := strings.LastIndexByte(s, ':'); colon < 1 || colon == len(s)-1 {
			return &keyError{"powerapi.socket", fmt.Sprintf("%q is not host:port", s)}
		}
	}
	for kind := range strings.SplitSeq(c.PowerAPI.Reports, ",") {
		switch strings.TrimSpace(kind) {
		case "hwpc", "power", "procfs":
		default:
			return &keyError{"powerapi.reports", fmt.Sprintf("%q is none of \"hwpc\", \"power\" and \"procfs\"", kind)}
		}
	}
	return nil
}
