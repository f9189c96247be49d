package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
)

// schemas checks values against the schemas of an OpenAPI document, as far as the document needs that.
type schemas struct{ root map[string]any }

// check returns why a value does not fit a schema, or nil. path names the value.
func (s schemas) check(schema map[string]any, v any, path string) error {
	for keyword := range schema {
		known := strings.Fields("$ref oneOf type enum pattern format minimum minLength items maxItems properties required additionalProperties description examples")
		if !slices.Contains(known, keyword) {
			return fmt.Errorf("%s: this test does not know %s", path, keyword)
		}
	}
	if ref, ok := schema["$ref"].(string); ok {
		target := any(s.root)
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			target = target.(map[string]any)[name]
		}
		return s.check(target.(map[string]any), v, path)
	}
	if all, ok := schema["oneOf"].([]any); ok {
		fits := slices.ContainsFunc(all, func(one any) bool { return s.check(one.(map[string]any), v, path) == nil })
		if !fits {
			return fmt.Errorf("%s: %v fits none of the alternatives", path, v)
		}
		return nil
	}
	if !hasType(schema["type"], v) {
		return fmt.Errorf("%s: %v is not of type %v", path, v, schema["type"])
	}
	switch v := v.(type) {
	case string:
		return checkText(schema, v, path)
	case float64:
		if least, ok := schema["minimum"].(float64); ok && v < least {
			return fmt.Errorf("%s: %v is less than %v", path, v, least)
		}
	case []any:
		for i, item := range v {
			if err := s.check(schema["items"].(map[string]any), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		return s.checkObject(schema, v, path)
	}
	return nil
}

func (s schemas) checkObject(schema, v map[string]any, path string) error {
	if schema["additionalProperties"] == true {
		return nil
	}
	properties := schema["properties"].(map[string]any)
	for _, name := range schema["required"].([]any) {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%s lacks %v", path, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		property, ok := properties[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s has %s, which the schema does not have", path, name)
		}
		if err := s.check(property, v[name], path+"."+name); err != nil {
			return err
		}
	}
	return nil
}

func checkText(schema map[string]any, v, path string) error {
	if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, any(v)) {
		return fmt.Errorf("%s: %q is none of %v", path, v, enum)
	}
	if pattern, ok := schema["pattern"].(string); ok && !regexp.MustCompile(pattern).MatchString(v) {
		return fmt.Errorf("%s: %q does not match %s", path, v, pattern)
	}
	if schema["format"] == "date-time" {
		if _, err := time.Parse(time.RFC3339Nano, v); err != nil || !strings.HasSuffix(v, "Z") {
			return fmt.Errorf("%s: %q is not a time in UTC", path, v)
		}
	}
	return nil
}

// hasType reports whether a value has a type, or one of several.
func hasType(types, v any) bool {
	if all, ok := types.([]any); ok {
		return slices.ContainsFunc(all, func(one any) bool { return hasType(one, v) })
	}
	switch v := v.(type) {
	case nil:
		return types == "null"
	case bool:
		return types == "boolean"
	case string:
		return types == "string"
	case float64:
		return types == "number" || types == "integer" && v == math.Trunc(v)
	case []any:
		return types == "array"
	}
	return types == "object"
}

// The answers of the service have the form that the description of the API gives, and so do its examples.
func TestAnswersFitTheDescription(t *testing.T) {
	file := filepath.Join(t.TempDir(), "readers")
	if err := os.WriteFile(file, []byte("all\nalice user=alice\nphysics account=physics\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newReadSite(t, config.Serve{ReadTokenFile: file}, [3]string{"alice", "bob", "carol"})
	_, text := s.get(t, "/v1/openapi.json")
	var doc map[string]any
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	c := schemas{doc}
	for name, schema := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		examples, _ := schema.(map[string]any)["examples"].([]any)
		for _, example := range examples {
			if err := c.check(schema.(map[string]any), example, name); err != nil {
				t.Errorf("example: %v", err)
			}
		}
	}
	statuses := map[int]int{}
	paths := doc["paths"].(map[string]any)
	delete(paths, "/links") // TestTheDoor has its answers
	for pattern, operations := range paths {
		responses := operations.(map[string]any)["get"].(map[string]any)["responses"].(map[string]any)
		jobs := []string{"1", "20_7", "20+1", "x"}
		for i, id := range append(s.ids, "20260301t120009-aaaaaaaaaaaaaaaaaaaaaaaaaa", "x") {
			for _, token := range []string{"all", "alice", "physics", "unknown"} {
				for _, query := range []string{"", "?x=1", "?by=user"} {
					path := strings.NewReplacer("{run_id}", id, "{job}", jobs[i%len(jobs)]).Replace(pattern) + query
					status, body := s.get(t, path, "Authorization", "Bearer "+token)
					statuses[status]++
					response, ok := responses[fmt.Sprint(status)].(map[string]any)
					if !ok {
						t.Errorf("GET %s: %d is not in the description", path, status)
						continue
					}
					media, isJSON := response["content"].(map[string]any)["application/json"].(map[string]any)
					if !isJSON {
						continue
					}
					var v any
					if err := json.Unmarshal([]byte(body), &v); err != nil {
						t.Errorf("GET %s: %v", path, err)
					} else if err := c.check(media["schema"].(map[string]any), v, "answer"); err != nil {
						t.Errorf("GET %s with %s: %v", path, token, err)
					}
				}
			}
		}
	}
	for _, status := range []int{http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusNotFound} {
		if statuses[status] == 0 {
			t.Errorf("no answer with status %d", status)
		}
	}
}
