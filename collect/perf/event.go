package perf

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/procfile"
)

// Event is an event as perf_event_attr encodes it.
type Event struct {
	Name    string // in readings
	Type    uint32
	Config  uint64
	Config1 uint64
	Config2 uint64
}

// generic are the events with a name on every machine, uapi/linux/perf_event.h.
var generic = []Event{
	{Name: "cycles", Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CPU_CYCLES},
	{Name: "instructions", Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS},
	{Name: "cache-references", Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CACHE_REFERENCES},
	{Name: "cache-misses", Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_CACHE_MISSES},
	{Name: "branches", Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	{Name: "branch-misses", Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_BRANCH_MISSES},
	{Name: "bus-cycles", Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_BUS_CYCLES},
	{Name: "ref-cycles", Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_REF_CPU_CYCLES},
	{Name: "cpu-clock", Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK},
	{Name: "task-clock", Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK},
	{Name: "page-faults", Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS},
	{Name: "minor-faults", Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS_MIN},
	{Name: "major-faults", Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ},
	{Name: "context-switches", Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CONTEXT_SWITCHES},
	{Name: "cpu-migrations", Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_MIGRATIONS},
}

// substitutes are counted on a machine without hardware counters.
var substitutes = []string{"task-clock", "page-faults", "context-switches"}

// Parse parses a list of events, separated by commas. Each is one of
//
//	cycles, instructions, ...  an event of every machine, see perf-list(1)
//	r01c2                      a raw event of the CPU, hexadecimal
//	power/energy-pkg/          an event of a PMU by its name below
//	                           <sys>/bus/event_source/devices/<PMU>/events
//	cpu/event=0x3c,umask=0x1/  an event by its fields, which format/ describes, or config=...
//
// optionally after a name for the readings: "INSTRUCTIONS_RETIRED=instructions". The error
// is a plain one for an event that exists on no machine, and a *StatusError for an event
// that this machine lacks.
func Parse(sysRoot, list string) ([]Event, error) {
	var out []Event
	for _, word := range split(list) {
		e, err := parseEvent(sysRoot, word)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o Event) bool { return o.Name == e.Name }) {
			return nil, fmt.Errorf("the event %q occurs twice", e.Name)
		}
		out = append(out, e)
	}
	return out, nil
}

// split splits the list at commas outside of slashes.
func split(list string) []string {
	inside := false
	words := strings.FieldsFunc(list, func(r rune) bool {
		if r == '/' {
			inside = !inside
		}
		return r == ',' && !inside
	})
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return slices.DeleteFunc(words, func(w string) bool { return w == "" })
}

// Check returns an error for a list that is valid on no machine.
func Check(list string) error {
	for _, word := range split(list) {
		_, spec := nameOf(word)
		if pmu, fields, isPMU := strings.Cut(spec, "/"); isPMU {
			fields, closed := strings.CutSuffix(fields, "/")
			if pmu == "" || strings.ContainsAny(pmu, ". ") || !closed || fields == "" || strings.Contains(fields, "/") {
				return fmt.Errorf("the event %q is not like power/energy-pkg/", spec)
			}
		} else if _, err := parsePlain(spec); err != nil {
			return err
		}
	}
	return nil
}

// nameOf cuts the name for the readings off. Fields contain = too, but within slashes.
func nameOf(word string) (name, spec string) {
	before, after, found := strings.Cut(word, "=")
	if found && !strings.Contains(before, "/") {
		return strings.TrimSpace(before), strings.TrimSpace(after)
	}
	return word, word
}

func parseEvent(sysRoot, word string) (e Event, err error) {
	if err := Check(word); err != nil {
		return e, err
	}
	name, spec := nameOf(word)
	if pmu, fields, isPMU := strings.Cut(spec, "/"); isPMU {
		e, err = named(filepath.Join(sysRoot, "bus/event_source/devices", pmu), strings.TrimSuffix(fields, "/"))
	} else {
		e, err = parsePlain(spec)
	}
	e.Name = name
	return e, err
}

// parsePlain parses a generic or a raw event.
func parsePlain(spec string) (Event, error) {
	if i := slices.IndexFunc(generic, func(g Event) bool { return g.Name == spec }); i >= 0 {
		return generic[i], nil
	}
	if hex, ok := strings.CutPrefix(spec, "r"); ok {
		if config, err := strconv.ParseUint(hex, 16, 64); err == nil {
			return Event{Name: spec, Type: unix.PERF_TYPE_RAW, Config: config}, nil
		}
	}
	return Event{}, fmt.Errorf("the event %q is neither a generic one such as cycles nor like r01c2 nor like power/energy-pkg/", spec)
}

// named parses the name of an event of a PMU, or the fields of an event.
func named(pmu, spec string) (Event, error) {
	number, err := os.ReadFile(filepath.Join(pmu, "type"))
	if err != nil {
		return Event{}, unsupported("no PMU %s: %w", filepath.Base(pmu), err)
	}
	var e Event
	typ, err := strconv.ParseUint(strings.TrimSpace(string(number)), 10, 32)
	if err != nil {
		return e, fmt.Errorf("the type of PMU %s: %w", filepath.Base(pmu), err)
	}
	e.Type = uint32(typ)
	fields := spec
	if !strings.Contains(spec, "=") {
		text, err := os.ReadFile(filepath.Join(pmu, "events", filepath.Base(spec)))
		if err != nil {
			return e, unsupported("PMU %s has no event %s: %w", filepath.Base(pmu), spec, err)
		}
		fields = strings.TrimSpace(string(text))
	}
	for field := range strings.SplitSeq(fields, ",") {
		if err := e.set(pmu, field); err != nil {
			return e, err
		}
	}
	return e, nil
}

// set sets one field, "event=0x3c" or "inv" for inv=1, in the bits that format/ has.
func (e *Event) set(pmu, field string) error {
	name, text, found := strings.Cut(strings.TrimSpace(field), "=")
	if !found {
		text = "1"
	}
	value, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return fmt.Errorf("the field %q of an event of PMU %s: %w", field, filepath.Base(pmu), err)
	}
	where := name + ":0-63"
	if name != "config" && name != "config1" && name != "config2" {
		format, err := os.ReadFile(filepath.Join(pmu, "format", filepath.Base(name)))
		if err != nil {
			return unsupported("PMU %s has no field %s: %w", filepath.Base(pmu), name, err)
		}
		where = strings.TrimSpace(string(format))
	}
	word, bits, _ := strings.Cut(where, ":")
	to := map[string]*uint64{"config": &e.Config, "config1": &e.Config1, "config2": &e.Config2}[word]
	if to == nil {
		return unsupported("PMU %s keeps its field %s in %s, which is unknown", filepath.Base(pmu), name, word)
	}
	return scatter(to, bits, value, name)
}

// scatter sets the bits of value, lowest first, at the positions of a format: "0-7,32-35".
func scatter(to *uint64, bits string, value uint64, name string) error {
	for part := range strings.SplitSeq(bits, ",") {
		from, last, ok := procfile.Range(part, 8)
		if !ok || last > 63 {
			return fmt.Errorf("the format %q of the field %s is not like 0-7,32-35", bits, name)
		}
		for bit := from; bit <= last; bit++ {
			*to |= value & 1 << bit
			value >>= 1
		}
	}
	if value != 0 {
		return fmt.Errorf("the value of the field %s has more bits than its format %s", name, bits)
	}
	return nil
}
