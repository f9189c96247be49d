package drain

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Registration returns the registration of the run, a JSON text, as it leaves. Numbers, and facts of the
// host and its cloud, are not changed.
func (d *Disguise) Registration(text []byte) ([]byte, error) { return d.rewriteJSON(text, d.jsonText) }

// Summary returns the summary of the run, a JSON text, as it leaves: with other users, groups, accounts and
// names of jobs. Its other texts are figures, such as "gpu:2", in which the name of a user can be a word.
func (d *Disguise) Summary(text []byte) ([]byte, error) { return d.rewriteJSON(text, d.summaryText) }

// rewriteJSON returns a JSON text with the texts that rewrite returns for a key and its text.
func (d *Disguise) rewriteJSON(text []byte, rewrite func(key, value string) string) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(d.jsonValue("", v, rewrite))
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}

func (d *Disguise) jsonValue(key string, value any, rewrite func(key, value string) string) any {
	switch v := value.(type) {
	case string:
		return rewrite(key, v)
	case []any:
		if key == "command" && d.Commands == None {
			return []any{}
		}
		for i := range v {
			v[i] = d.jsonValue(key, v[i], rewrite)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, item := range v {
			name := k
			if key == "tags" { // the user's
				name = d.replace(k, d.names)
			}
			out[name] = d.jsonValue(k, item, rewrite)
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

func (d *Disguise) summaryText(key, value string) string {
	switch key {
	case "user", "group", "account", "job_name", "work_dir":
		return d.jsonText(key, value)
	case "slurm_state":
		return d.replace(value, nil) // the number of the user who cancelled the job
	}
	return value
}

// plainKeys are the keys of values that leave as they are.
var plainKeys = []string{
	"external_run_id", "node", "node_list", "boot_id", "cluster", "scheduler", "state", "outcome", "outcome_source", "cores_of",
}
