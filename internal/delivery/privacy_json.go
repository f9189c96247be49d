package delivery

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// JSON returns a JSON text about the run as it leaves: its registration, or figures of it. Numbers, and
// facts of the host and its cloud, are not changed.
func (d *Disguise) JSON(text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(d.jsonValue("", v))
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

func (d *Disguise) jsonValue(key string, value any) any {
	switch v := value.(type) {
	case string:
		return d.jsonText(key, v)
	case []any:
		if key == "command" && d.Commands == None {
			return []any{}
		}
		for i := range v {
			v[i] = d.jsonValue(key, v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			name := k
			if key == "tags" { // the user's
				name = d.replace(k, d.names)
			}
			out[name] = d.jsonValue(k, item)
		}
		return out
	case json.Number:
		isNumberOfUser := key == "uid" || key == "gid"
		if isNumberOfUser && d.Users.hides() {
			return nil
		}
	}
	return value
}

func (d *Disguise) jsonText(key, value string) string {
	isOfHost := strings.HasPrefix(key, "host_") || strings.HasPrefix(key, "cloud_")
	switch {
	case isOfHost, slices.Contains(plainKeys, key):
		return value
	case key == "job_name":
		return d.name(kindJob, value)
	case key == "user":
		return d.name(kindUser, value)
	case key == "group":
		return d.name(kindGroup, value)
	case key == "work_dir":
		return d.name(kindDirectory, value)
	case key == "command" && d.Commands == None:
		return ""
	case key == "comment":
		return d.comment(value)
	}
	return d.tag(key, value)
}

// plainKeys are the keys of values that leave as they are.
var plainKeys = []string{
	"external_run_id", "node", "node_list", "boot_id", "cluster", "scheduler", "state", "outcome", "outcome_source", "cores_of",
}
