package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/resource-tracker/rt/internal/file"
)

// Load reads the configuration from path, which must exist. An empty path means DefaultPath,
// or the defaults without that file. An error has the file, and the line and the key.
func Load(path string) (Config, error) {
	name := path
	if name == "" {
		name = DefaultPath
	}
	data, err := file.ReadSmall(name, file.SmallLimit)
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return parse(name, data)
}

// parse decodes the text of rt.toml over the defaults; name is for errors.
func parse(name string, data []byte) (Config, error) {
	var cfg Config
	keys := cfg.keys()
	setDefaults(keys)
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cfg); err != nil {
		return Config{}, explain(name, data, err)
	}
	if bad := cfg.check(keys); bad != nil {
		return Config{}, bad.in(name, data)
	}
	return cfg, nil
}

// explain adds file, line and key to a decoder's error.
func explain(name string, data []byte, err error) error {
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(missing.Errors) > 0 {
		first := missing.Errors[0]
		line, _ := first.Position()
		return fmt.Errorf("%s:%d: unknown key %s; rt.toml(5) lists the known ones", name, line, strings.Join(first.Key(), "."))
	}
	if bad, ok := errors.AsType[*toml.DecodeError](err); ok {
		line, _ := bad.Position()
		key := strings.Join(bad.Key(), ".")
		if key != "" {
			key += ": "
		}
		return fmt.Errorf("%s:%d: %s%s", name, line, key, strings.TrimPrefix(bad.Error(), "toml: "))
	}
	if key := plainNumber(data); key != "" {
		return (&keyError{key, err.Error()}).in(name, data)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// plainNumber returns the key of a duration or size that is no string: the decoder does not.
func plainNumber(data []byte) string {
	var raw map[string]map[string]any
	if toml.Unmarshal(data, &raw) != nil {
		return ""
	}
	for _, k := range new(Config).keys() {
		section, name, _ := strings.Cut(k.name(), ".")
		v, found := raw[section][name]
		_, isText := k.value.Addr().Interface().(encoding.TextUnmarshaler)
		if _, isString := v.(string); found && isText && !isString {
			return k.name()
		}
	}
	return ""
}

// keyError is an error in the value of one key.
type keyError struct {
	key     string // section.key
	problem string
}

// in returns the error with the file and the key's line.
func (e *keyError) in(name string, data []byte) error {
	section, key, _ := strings.Cut(e.key, ".")
	current := ""
	line := 0
	for text := range bytes.Lines(data) {
		line++
		t := strings.TrimSpace(string(text))
		if strings.HasPrefix(t, "[") {
			current, _, _ = strings.Cut(strings.TrimLeft(t, "[ "), "]")
			continue
		}
		k, _, _ := strings.Cut(t, "=")
		if strings.TrimSpace(current) == section && strings.TrimSpace(k) == key {
			return fmt.Errorf("%s:%d: %s: %s", name, line, e.key, e.problem)
		}
	}
	return fmt.Errorf("%s: %s: %s", name, e.key, e.problem)
}

// check returns a value that is out of its range, nil if there is none. keys are the keys of c.
func (c *Config) check(keys []key) *keyError {
	for _, k := range keys {
		for _, problem := range [...]string{k.checkPath(), k.checkWord(), k.checkRange(), k.checkSize()} {
			if problem != "" {
				return &keyError{k.name(), problem}
			}
		}
	}
	if bad := c.checkTexts(); bad != nil {
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

// checkWord checks a text that is one of some words, or an absolute path. A text without a default may be empty.
func (k *key) checkWord() string {
	words := strings.Fields(k.tag.Get("words"))
	text := k.value.String()
	_, isRequired := k.tag.Lookup("default")
	isUnset := text == "" && !isRequired
	if len(words) == 0 || isUnset || slices.Contains(words, text) {
		return ""
	}
	last := len(words) - 1
	if words[last] == "/" && filepath.IsAbs(text) {
		return ""
	}
	for i, w := range words {
		words[i] = strconv.Quote(w)
	}
	words[last] = strings.Replace(words[last], `"/"`, "an absolute path", 1)
	return fmt.Sprintf("%q is not %s or %s", text, strings.Join(words[:last], ", "), words[last])
}

// checkTexts checks the texts that have a form of their own.
func (c *Config) checkTexts() *keyError {
	if _, _, err := parseAccess(c.Spool.Access); err != nil {
		return &keyError{"spool.access", err.Error()}
	}
	for _, url := range [...][2]string{{"sentinel.endpoint", c.Sentinel.Endpoint}, {"sentinel.s3_endpoint", c.Sentinel.S3Endpoint}, {"serve.objects_endpoint", c.Serve.Endpoint}, {"serve.url", c.Serve.URL}, {"serve.oidc_issuer", c.Serve.OIDCIssuer}, {"site.url", c.Site.URL}} {
		if url[1] != "" && !strings.HasPrefix(url[1], "https://") && !strings.HasPrefix(url[1], "http://") {
			return &keyError{url[0], fmt.Sprintf("%q does not begin with https:// or http://", url[1])}
		}
	}
	s := &c.Serve
	switch {
	case s.Database != "" && !isPostgres(s.Database):
		return &keyError{"serve.database", "does not begin with postgres:// or postgresql://"} // it may have a password
	case s.Objects != "" && !strings.HasPrefix(s.Objects, "s3://"):
		return &keyError{"serve.objects", fmt.Sprintf("%q does not begin with s3://", s.Objects)}
	case s.TLSCert != "" && s.TLSKey == "":
		return &keyError{"serve.tls_cert", "needs serve.tls_key too"}
	case s.TLSKey != "" && s.TLSCert == "":
		return &keyError{"serve.tls_key", "needs serve.tls_cert too"}
	case s.OIDCIssuer != "" && s.OIDCClient == "":
		return &keyError{"serve.oidc_issuer", "needs serve.oidc_client_id too"}
	case s.OIDCIssuer != "" && s.URL == "":
		return &keyError{"serve.oidc_issuer", "needs serve.url too: the provider sends browsers back there"}
	case s.OIDCIssuer != "" && s.OIDCClaim == "":
		return &keyError{"serve.oidc_claim", "must name a claim"}
	case c.Spool.User == "":
		return &keyError{"spool.user", "must name a user"}
	}
	return nil
}

func isPostgres(database string) bool {
	return strings.HasPrefix(database, "postgres://") || strings.HasPrefix(database, "postgresql://")
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
