package drain

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// kinds are the kinds of the events of a tracker. Their names are those of sensors and the like, which
// the report looks for, or paths.
var kinds = []string{"sensor", "gap", "spool", "tracker", "job", "drain"}

// figures lists the events with a detail that the report parses, and that has no names of other programs.
var figures = []string{
	"gap/schedule", "gap/suspend", "tracker/cost", "tracker/sensors", "tracker/budget", "tracker/clock",
	"job/rusage", "job/cpuset", "job/oom_kill", "job/cpu", "job/end", "job/bytes", "job/tree", "job/processes",
}

// Event changes an event of the ledger of the run to what leaves.
func (d *Disguise) Event(e *rt.Event) {
	isFigure := slices.Contains(figures, e.Kind+"/"+e.Name)
	isCount := e.Kind == "spool" && e.Status == "repeated"
	isUnseen := e.Kind == "job" && e.Name == "tasks" && e.Status != "failed"
	switch {
	case e.Kind == "job" && e.Name == "sacct":
		e.Detail = d.replace(e.Detail, nil) // the number of the user who cancelled the job
	case !isFigure && !isCount && !isUnseen:
		e.Detail = d.replace(e.Detail, d.texts)
	}
	kind, name, isRepeated := strings.Cut(e.Name, "/")
	switch isKind := slices.Contains(kinds, e.Kind); {
	case !isKind:
		e.Kind, e.Name, e.Status = d.replace(e.Kind, d.texts), d.replace(e.Name, d.texts), d.replace(e.Status, d.texts)
	case isCount && isRepeated:
		e.Name = kind + "/" + d.eventName(name)
	default:
		e.Name = d.eventName(e.Name)
	}
}

func (d *Disguise) eventName(name string) string {
	if strings.Contains(name, "/") {
		return d.replace(name, d.texts)
	}
	return name
}

// reporters are the programs of which the formats of the reports are known. They have no commands.
var reporters = []string{"powerapi", "gempba"}

// Record changes a report of another program to what leaves. It reports false if the report does not
// leave: it is no JSON, or it can have commands.
func (d *Disguise) Record(r *rt.Record) bool {
	isKnown := slices.Contains(reporters, r.Source)
	if d.Commands == None && !isKnown {
		return false
	}
	if !isKnown {
		r.Source = d.replace(r.Source, d.texts)
	}
	var ok bool
	r.Body, ok = d.json(r.Body)
	return ok
}

// nonFinite matches the numbers that some programs write although JSON does not have them.
var nonFinite = regexp.MustCompile(`[-+]?(?i:nan(?:\([^"()]*\))?|inf(?:inity)?)`)

// json returns a JSON document in which the names in texts are replaced. Of the names of members only
// those with a "/" are texts, such as the paths of cgroups. All other bytes stay.
func (d *Disguise) json(body []byte) (out []byte, ok bool) {
	if !json.Valid(nonFinite.ReplaceAll(body, []byte("0"))) {
		return nil, false
	}
	from := 0
	for at := 0; at < len(body); at++ {
		if body[at] != '"' {
			continue
		}
		end := stringEnd(body, at)
		var text string
		if json.Unmarshal(body[at:end], &text) != nil {
			return nil, false
		}
		isMember := bytes.HasPrefix(bytes.TrimLeft(body[end:], " \t\r\n"), []byte(":"))
		if isText := !isMember || strings.Contains(text, "/"); isText {
			out = append(append(out, body[from:at]...), d.literal(body[at:end], text)...)
			from = end
		}
		at = end - 1
	}
	return append(out, body[from:]...), true
}

// literal returns the literal of a text without the names that do not leave.
func (d *Disguise) literal(literal []byte, text string) []byte {
	changed := d.replace(text, d.texts)
	if changed == text {
		return literal
	}
	out, err := json.Marshal(changed)
	if err != nil { // a text is always encoded
		return []byte(`""`)
	}
	return out
}

// stringEnd returns the end of the literal of a text at an index of valid JSON.
func stringEnd(body []byte, at int) int {
	for at++; at < len(body) && body[at] != '"'; at++ {
		if body[at] == '\\' {
			at++
		}
	}
	return min(at+1, len(body))
}
