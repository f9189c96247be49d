package config

import (
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
)

// TestExampleFile: contrib/rt.toml is valid and has every key; keys after a # have their
// defaults.
func TestExampleFile(t *testing.T) {
	const file = "../../../contrib/rt.toml"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	uncommented := regexp.MustCompile(`(?m)^#([a-z0-9_]+ = )`).ReplaceAll(data, []byte("$1"))
	for name, text := range map[string][]byte{file: data, file + " without #": uncommented} {
		cfg, err := parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Default(), cfg); diff != "" {
			t.Errorf("%s is not the default (-default +file):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"spool.dir"}, keysOf(t, data)); diff != "" {
		t.Errorf("keys that %s sets (-smallest +file):\n%s", file, diff)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(Keys())), keysOf(t, uncommented)); diff != "" {
		t.Errorf("keys of %s (-known +file):\n%s", file, diff)
	}
}

// keysOf returns the keys of a TOML text as section.key, sorted.
func keysOf(t *testing.T, text []byte) []string {
	t.Helper()
	var sections map[string]map[string]any
	if err := toml.Unmarshal(text, &sections); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for s, values := range sections {
		for k := range values {
			keys = append(keys, s+"."+k)
		}
	}
	slices.Sort(keys)
	return keys
}

// TestManualPage: rt.toml(5), which is made from contrib/rt.toml, has every key, in order, with its default and a
// description.
func TestManualPage(t *testing.T) {
	page, err := exec.Command("awk", "-f", "../../../man/rt.toml.5.awk", "../../../contrib/rt.toml").Output()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	sections := reflect.ValueOf(Default())
	for s := range sections.NumField() {
		for k := range sections.Field(s).NumField() {
			value := sections.Field(s).Field(k).Interface()
			text := fmt.Sprint(value)
			switch v := value.(type) {
			case string:
				text = fmt.Sprintf(`\(dq%s\(dq`, v)
			case Size:
				text = fmt.Sprintf(`\(dq%s\(dq`, v)
			case Duration:
				text = fmt.Sprintf(`\(dq%s\(dq`, brief(v.Duration))
			}
			want = append(want, fmt.Sprintf("%s = %s", Keys()[len(want)], text))
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\.BR (\S+) " = " (.+)$`).FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1]+" = "+m[2])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rt.toml(5) (-known +page):\n%s", diff)
	}
	for _, key := range regexp.MustCompile(`(?m)^\.BR (\S+) .*\n\.(?:TP|IP|SH)`).FindAllSubmatch(page, -1) {
		t.Errorf("rt.toml(5) does not describe %s", key[1])
	}
}

// brief formats 5m0s as 5m and 168h0m0s as 168h.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
