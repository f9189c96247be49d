package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// check returns a value that is out of its range, nil if there is none.
func (c *Config) check() *keyError {
	for _, k := range c.keys() {
		for _, problem := range [...]string{k.checkPath(), k.checkRange(), k.checkSize()} {
			if problem != "" {
				return &keyError{k.name, problem}
			}
		}
	}
	if bad := c.checkWords(); bad != nil {
		return bad
	}
	return c.checkPowerAPI()
}

// checkPath requires absolute paths: hooks and cron jobs run in an arbitrary directory.
func (k *key) checkPath() string {
	kind, isPath := k.tag.Lookup("path")
	isUnset := kind == "optional" && k.value.IsZero()
	if isPath && !isUnset && !filepath.IsAbs(k.value.String()) {
		return fmt.Sprintf("%q is not an absolute path", k.value)
	}
	return ""
}

func (k *key) checkRange() string {
	limits, has := k.tag.Lookup("in")
	if !has {
		return ""
	}
	least, greatest, _ := strings.Cut(limits, " ")
	inside := false
	switch v := k.value.Interface().(type) {
	case int:
		inside = isBetween(float64(v), least, greatest)
	case float64:
		inside = isBetween(v, least, greatest)
	case Duration:
		first, _ := time.ParseDuration(least)
		last, _ := time.ParseDuration(greatest)
		inside = v.Duration >= first && v.Duration <= last
		least, greatest = first.String(), last.String()
	}
	if inside {
		return ""
	}
	return fmt.Sprintf("%v is not between %s and %s", k.value, least, greatest)
}

// isBetween is false for NaN.
func isBetween(v float64, least, greatest string) bool {
	first, _ := strconv.ParseFloat(least, 64)
	last, _ := strconv.ParseFloat(greatest, 64)
	return v >= first && v <= last
}

// checkSize checks that a quota has room for what thinning keeps.
func (k *key) checkSize() string {
	const least = 1 << 20
	s, _ := k.value.Interface().(Size)
	if s.Bytes != 0 && s.Bytes < least {
		return fmt.Sprintf("%s is less than %s and not \"0\"", s, Size{least})
	}
	return ""
}

func (c *Config) checkWords() *keyError {
	if c.Log.Target != "syslog" && !filepath.IsAbs(c.Log.Target) {
		return &keyError{"log.target", fmt.Sprintf("%q is neither \"syslog\" nor an absolute path", c.Log.Target)}
	}
	if _, _, err := parseAccess(c.Spool.Access); err != nil {
		return &keyError{"spool.access", err.Error()}
	}
	if w := c.Sentinel.Dialect; w != "spec" && w != "live" && w != "auto" {
		return &keyError{"sentinel.dialect", fmt.Sprintf("%q is none of \"spec\", \"live\" and \"auto\"", w)}
	}
	if w := c.Drain.Scope; w != "job" && w != "node" {
		return &keyError{"drain.scope", fmt.Sprintf("%q is neither \"job\" nor \"node\"", w)}
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
	if w := c.Energy.Source; w != "auto" && w != "off" {
		return &keyError{"energy.source", fmt.Sprintf("%q is neither \"auto\" nor \"off\"", w)}
	}
	return nil
}

func (c *Config) checkPowerAPI() *keyError {
	if s := c.PowerAPI.Socket; s != "" {
		// Not package net: hooks and trackers parse this file too and must not link it.
		if colon := strings.LastIndexByte(s, ':'); colon < 1 || colon == len(s)-1 {
			return &keyError{"powerapi.socket", fmt.Sprintf("%q is not host:port", s)}
		}
	}
	for kind := range strings.SplitSeq(c.PowerAPI.Reports, ",") {
		if k := strings.TrimSpace(kind); k != "hwpc" && k != "power" && k != "procfs" {
			return &keyError{"powerapi.reports", fmt.Sprintf("%q is none of \"hwpc\", \"power\" and \"procfs\"", kind)}
		}
	}
	return nil
}
