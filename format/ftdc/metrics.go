package ftdc

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
)

// RestSuffix is the end of the name of the second metric of a figure. A figure is stored in two
// metrics, because a metric is a float32 with 24 significant bits. The second metric has the
// remainder. A figure that was not read has no metric in the schema; for processes see transient.
const RestSuffix = "_rest"

// field is a named field of a struct of rt.
type field struct {
	name string
	at   any // a pointer to a figure or a text
}

// figure returns the value of a figure, and false if it was not read.
func (f field) figure() (float64, bool) {
	switch p := f.at.(type) {
	case *rt.Opt[uint64]:
		v, ok := p.Get()
		return fromCount(v), ok
	case *rt.Opt[int64]:
		v, ok := p.Get()
		return float64(v), ok
	case *rt.Opt[float64]:
		return p.Get()
	case *rt.Opt[bool]:
		v, ok := p.Get()
		return fromBool(v), ok
	case *uint64:
		return fromCount(*p), true
	case *float64:
		return *p, true
	case *bool:
		return fromBool(*p), true
	case *rt.JobPhase:
		return float64(*p), true
	}
	return 0, false
}

// setFigure is the reverse of figure.
func (f field) setFigure(v float64) error {
	switch p := f.at.(type) {
	case *rt.Opt[uint64]:
		n, err := toCount(v)
		p.Set(n)
		return err
	case *rt.Opt[int64]:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<63 {
			return fmt.Errorf("%v is not a whole number", v)
		}
		p.Set(int64(v))
	case *rt.Opt[float64]:
		p.Set(v)
	case *rt.Opt[bool]:
		p.Set(v != 0)
	case *uint64:
		n, err := toCount(v)
		*p = n
		return err
	case *float64:
		*p = v
	case *bool:
		*p = v != 0
	case *rt.JobPhase:
		if v != math.Trunc(v) || v < 0 || v > float64(rt.JobGone) {
			return fmt.Errorf("%v is not a phase of a job", v)
		}
		*p = rt.JobPhase(v)
	}
	return nil
}

// clear makes an optional figure absent.
func (f field) clear() {
	switch p := f.at.(type) {
	case *rt.Opt[uint64]:
		p.Clear()
	case *rt.Opt[float64]:
		p.Clear()
	}
}

// fromCount returns v as a float64; rt.Unlimited becomes +Inf.
func fromCount(v uint64) float64 {
	if v == rt.Unlimited {
		return math.Inf(1)
	}
	return float64(v)
}

func fromBool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// toCount is the reverse of fromCount.
func toCount(v float64) (uint64, error) {
	switch {
	case math.IsInf(v, 1):
		return rt.Unlimited, nil
	case v != math.Trunc(v) || v < 0 || v >= 1<<64:
		return 0, fmt.Errorf("%v is not a count", v)
	}
	return uint64(v), nil
}

// split divides a figure into two float32, which together hold 48 significant bits.
func split(v float64) (value, rest float32) {
	value = float32(v)
	if math.IsInf(float64(value), 0) {
		return value, 0
	}
	return value, float32(v - float64(value))
}

// join is the reverse of split.
func join(value, rest float32) float64 { return float64(value) + float64(rest) }

// eachText calls yield with each text that is not empty. A text in a map has the name field.key.
func eachText(texts []field, yield func(name, text string)) {
	for _, f := range texts {
		switch p := f.at.(type) {
		case *string:
			if *p != "" {
				yield(f.name, *p)
			}
		case *map[string]string:
			for _, key := range slices.Sorted(maps.Keys(*p)) {
				if text := (*p)[key]; text != "" {
					yield(f.name+"."+key, text)
				}
			}
		}
	}
}

// setText is the reverse of eachText. It ignores unknown names, which are from a newer version.
func setText(texts []field, name, text string) {
	for _, f := range texts {
		switch p := f.at.(type) {
		case *string:
			if name == f.name {
				*p = text
			}
		case *map[string]string:
			key, ok := strings.CutPrefix(name, f.name+".")
			if !ok || text == "" {
				continue
			}
			if *p == nil {
				*p = map[string]string{}
			}
			(*p)[key] = text
		}
	}
}

// FTDC can store only numbers, so the name of a metric holds the text. Such a metric is only in the datum at which
// the text appears or changes. The texts of the run, the host and the ledger are in the first datum. Examples:
//
//	run_info.job_name=md             of the run
//	host_info.cpu_model=...          of the host
//	gpu_info.GPU-1.name=NVIDIA H100  of a device
//	ledger.0003.gap/late/readings=5 readings before ...  line of the ledger
//
// The value of the metric is 1. For a line of the ledger it is the time of the event, in seconds
// after the first reading.
const infoSuffix = "_info."

// info returns the name of the metric of a text.
func info(kind, name, text string) string {
	return strings.ToValidUTF8(kind+infoSuffix+name+"="+text, "?")
}

// eachRunText calls yield with each text of the run. Of the command it passes only the program,
// because the arguments may be secret.
func eachRunText(run *rt.Run, yield func(name, text string)) {
	eachText(runOf(run).texts, yield)
	if len(run.Command) > 0 {
		yield("command", filepath.Base(run.Command[0]))
	}
}

// setRunText is the reverse of eachRunText.
func setRunText(run *rt.Run, name, text string) {
	if name == "command" {
		run.Command = []string{text}
		return
	}
	setText(runOf(run).texts, name, text)
}

// maxLedger bounds the lines of the ledger in a file. From a longer ledger the file has only the
// first and the last lines.
const maxLedger = 4096

// ledgerName returns the name of the metric of line n of the ledger.
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

// ofTheFile reports whether a line of the ledger is about the import of the run.
func ofTheFile(e rt.Event) bool { return e.Kind == "tracker" && e.Name == "import" }

// IsText reports whether a metric stores its content in its name. The content is a text or a line of
// the ledger.
func IsText(name string) bool {
	kind, text, ok := strings.Cut(name, "=")
	_, ledger := ledgerEvent(name)
	isInfo := ok && text != "" && strings.Contains(kind, infoSuffix)
	return isInfo || ledger
}
