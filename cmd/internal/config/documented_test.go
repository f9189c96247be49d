package config

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
)

// TestExampleFile holds contrib/rt.toml: every key is there, with its default.
func TestExampleFile(t *testing.T) {
	const file = "../../../contrib/rt.toml"
	cfg, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), cfg); diff != "" {
		t.Errorf("%s is not the default (-default +file):\n%s", file, diff)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var sections map[string]map[string]any
	if err := toml.Unmarshal(data, &sections); err != nil {
		t.Fatal(err)
	}
	var got []string
	for s, keys := range sections {
		for k := range keys {
			got = append(got, s+"."+k)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(slices.Sorted(slices.Values(Keys())), got); diff != "" {
		t.Errorf("keys of %s (-known +file):\n%s", file, diff)
	}
}

// TestManualPage holds rt.toml(5): every key is there, in order, with its default.
func TestManualPage(t *testing.T) {
	const file = "../../../man/rt.toml.5"
	data, err := os.ReadFile(file)
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
			case Duration:
				text = fmt.Sprintf(`\(dq%s\(dq`, brief(v.Duration))
			}
			want = append(want, fmt.Sprintf("%s = %s", Keys()[len(want)], text))
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^\.BR (\S+) " = " (.+)$`).FindAllStringSubmatch(string(data), -1) {
		got = append(got, m[1]+" = "+m[2])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-known +page):\n%s", file, diff)
	}
}

// brief writes 5m0s as 5m and 168h0m0s as 168h.
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
