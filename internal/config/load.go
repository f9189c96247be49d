package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Load reads the configuration from path, which must exist. An empty path means DefaultPath,
// or the defaults without that file. An error has the file, and the line and the key.
func Load(path string) (Config, error) {
	file := path
	if file == "" {
		file = DefaultPath
	}
	data, err := os.ReadFile(file)
	if path == "" && errors.Is(err, fs.ErrNotExist) {
		return Default(), nil
	}
	if err != nil {
		return Config{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	return parse(file, data)
}

// parse decodes the text of rt.toml over the defaults; name is for errors.
func parse(name string, data []byte) (Config, error) {
	cfg := Default()
	dec := toml.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&cfg); err != nil {
		return Config{}, explain(name, data, err)
	}
	if bad := cfg.check(); bad != nil {
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
		section, name, _ := strings.Cut(k.name, ".")
		v, found := raw[section][name]
		_, isText := k.value.Addr().Interface().(encoding.TextUnmarshaler)
		if _, isString := v.(string); found && isText && !isString {
			return k.name
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
