package ftdc

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// FTDC holds numbers alone, so that words are in the names of metrics, in one datum:
//
//	run_info.job_name=md             of the run
//	host_info.cpu_model=...          of the host
//	gpu_info.GPU-1.name=NVIDIA H100  of a device, where it begins or changes
//	ledger.0003.gap/late/readings=5 readings before ...
//
// The value is 1, of a line of the ledger the seconds after the first reading.
const infoSuffix = "_info."

// wordsOf lists the texts of a struct type and its tables of texts.
func wordsOf(t reflect.Type) []number {
	return fieldsOf(&wordsByType, t, func(f reflect.Type) bool {
		return f.Kind() == reflect.String && f != reflect.TypeFor[rt.State]() || f == reflect.TypeFor[map[string]string]()
	})
}

// eachWord calls yield with each text of a struct that is not empty, in order. Those of
// a table are named field.key.
func eachWord(v reflect.Value, yield func(name, text string)) {
	for _, w := range wordsOf(v.Type()) {
		f := v.FieldByIndex(w.index)
		if f.Kind() == reflect.String {
			if f.Len() > 0 {
				yield(w.name, f.String())
			}
			continue
		}
		table := f.Interface().(map[string]string)
		keys := make([]string, 0, len(table))
		for key := range table {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for _, key := range keys {
			if table[key] != "" {
				yield(w.name+"."+key, table[key])
			}
		}
	}
}

// setWord is the reverse of eachWord. A name that is not known is of a newer rt.
func setWord(v reflect.Value, name, text string) bool {
	for _, w := range wordsOf(v.Type()) {
		f := v.FieldByIndex(w.index)
		if f.Kind() == reflect.String && name == w.name {
			f.SetString(text)
			return true
		}
		if key, ok := strings.CutPrefix(name, w.name+"."); ok && f.Kind() == reflect.Map {
			if f.IsNil() {
				f.Set(reflect.MakeMap(f.Type()))
			}
			if text != "" {
				f.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(text))
			}
			return true
		}
	}
	return false
}

// info is the name of a metric that says a text.
func info(kind, name, text string) string {
	return strings.ToValidUTF8(kind+infoSuffix+name+"="+text, "?")
}

// deviceInfo takes <kind>_info.<key>.<field>=<text> apart. A key may hold dots and
// signs of equality.
func deviceInfo(p *part, t reflect.Type, name string) (key, field, text string, ok bool) {
	rest, ok := strings.CutPrefix(name, p.kind+infoSuffix)
	if !ok {
		return "", "", "", false
	}
	at := -1
	for _, w := range wordsOf(t) {
		end := "="
		if t.FieldByIndex(w.index).Type.Kind() == reflect.Map {
			end = "."
		}
		if i := strings.Index(rest, "."+w.name+end); i >= 0 && (at < 0 || i < at) {
			at = i
		}
	}
	if at < 0 {
		return "", "", "", false
	}
	field, text, ok = strings.Cut(rest[at+1:], "=")
	return rest[:at], field, text, ok
}

// runWords calls yield with each text of the run. Of its command there is the name:
// arguments may be secret.
func runWords(run *rt.Run, yield func(name, text string)) {
	eachWord(reflect.ValueOf(run).Elem(), yield)
	eachWord(reflect.ValueOf(&run.Meta).Elem(), yield)
	if len(run.Command) > 0 {
		yield("command", filepath.Base(run.Command[0]))
	}
}

func setRunWord(run *rt.Run, name, text string) {
	if name == "command" {
		run.Command = []string{text}
		return
	}
	_ = setWord(reflect.ValueOf(run).Elem(), name, text) || setWord(reflect.ValueOf(&run.Meta).Elem(), name, text)
}

// maxLedger is how many lines of a ledger a file has: of more, the first and the last.
const maxLedger = 4096

// ledgerName is the name of the metric of line n of a ledger.
func ledgerName(n int, e *rt.Event) string {
	return strings.ToValidUTF8(fmt.Sprintf("ledger.%04d.%s/%s/%s=%s", n, e.Kind, e.Status, e.Name, e.Detail), "?")
}

// ledgerEvent is the reverse of ledgerName.
func ledgerEvent(name string) (e rt.Event, ok bool) {
	rest, ok := strings.CutPrefix(name, "ledger.")
	_, rest, dot := strings.Cut(rest, ".")
	head, detail, equal := strings.Cut(rest, "=")
	words := strings.SplitN(head, "/", 3)
	if !ok || !dot || !equal || len(words) != 3 {
		return rt.Event{}, false
	}
	return rt.Event{Kind: words[0], Status: words[1], Name: words[2], Detail: detail}, true
}

// ofTheFile says whether a line of the ledger is of how the run came into a spool,
// and not of the run.
func ofTheFile(e rt.Event) bool { return e.Kind == "tracker" && e.Name == "import" }

// IsText says whether a metric's name is all that it says.
func IsText(name string) bool {
	kind, text, ok := strings.Cut(name, "=")
	_, ledger := ledgerEvent(name)
	return ok && text != "" && strings.Contains(kind, infoSuffix) || ledger
}
