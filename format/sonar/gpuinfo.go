package sonar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPU is what one GPU of the host did: an element of gpuinfo.
type GPU struct {
	FanPct      uint64 // of its highest speed; may exceed 100
	Mode        string // compute mode; empty for the default one
	Perf        string // performance state, "P8"
	MemUseKiB   uint64
	UtilPct     uint64 // of time that it computed
	MemUtilPct  uint64
	TempC       uint64 // degrees Celsius
	PowerW      uint64 // watts
	PowerLimitW uint64
	ClockMHz    uint64 // of the compute elements
	MemClockMHz uint64
}

// maxGPUs bounds how many GPUs a host is believed to have.
const maxGPUs = 4096

// gpuAttributes are the names of a GPU's fields in the order of the format's page.
var gpuAttributes = [...]string{
	"fan%", "mode", "perf", "musekib", "cutil%", "mutil%", "tempc", "poww", "powlimw", "cez", "memz",
}

// Texts of Mode and Perf that stand for none in CSV, because the last value of a
// list may not be empty: readers drop such a record.
const (
	defaultMode = "Default"
	noPerf      = "Unknown"
)

func (g *GPU) integer(name string) *uint64 {
	switch name {
	case "fan%":
		return &g.FanPct
	case "musekib":
		return &g.MemUseKiB
	case "cutil%":
		return &g.UtilPct
	case "mutil%":
		return &g.MemUtilPct
	case "tempc":
		return &g.TempC
	case "poww":
		return &g.PowerW
	case "powlimw":
		return &g.PowerLimitW
	case "cez":
		return &g.ClockMHz
	case "memz":
		return &g.MemClockMHz
	}
	return nil
}

// set reads one attribute; one that is not known is passed over.
func (g *GPU) set(name, text string) (err error) {
	if p := g.integer(name); p != nil {
		if text == "" {
			return nil
		}
		*p, err = parseInteger(text)
		return err
	}
	switch {
	case name == "mode" && text != defaultMode:
		g.Mode = text
	case name == "perf" && text != noPerf:
		g.Perf = text
	}
	return nil
}

// text is the attribute as it is in JSON: empty where it is omitted.
func (g *GPU) text(name string) string {
	if p := g.integer(name); p != nil {
		if *p == 0 {
			return ""
		}
		return strconv.FormatUint(*p, 10)
	}
	if name == "mode" {
		return g.Mode
	}
	return g.Perf
}

// element is the attribute in a list of CSV, where something must stand.
func (g *GPU) element(name string) string {
	text := strings.ReplaceAll(clean(g.text(name)), "|", "/")
	if text != "" {
		return text
	}
	switch name {
	case "mode":
		return defaultMode
	case "perf":
		return noPerf
	}
	return "0"
}

// gpuInfo is the nested value of gpuinfo: a list over the GPUs for each attribute
// that one of them has. Every list has as many values as there are GPUs and none of
// them is empty, which is what readers can cope with.
func gpuInfo(gpus []GPU) []Field {
	var fields []Field
	for _, name := range gpuAttributes {
		if slices.ContainsFunc(gpus, func(g GPU) bool { return g.text(name) != "" }) {
			fields = append(fields, gpuList(name, gpus))
		}
	}
	if fields == nil { // at least how many there are
		fields = append(fields, gpuList(gpuAttributes[0], gpus))
	}
	return fields
}

func gpuList(name string, gpus []GPU) Field {
	words := make([]string, len(gpus))
	for i := range gpus {
		words[i] = gpus[i].element(name)
	}
	return Field{Name: name, Text: strings.Join(words, "|")}
}

func parseGPUInfo(text string) ([]GPU, error) {
	if text == "" {
		return nil, nil
	}
	fields, err := SplitFree(text)
	if err != nil {
		return nil, err
	}
	var gpus []GPU
	for _, f := range fields {
		if !slices.Contains(gpuAttributes[:], f.Name) {
			continue
		}
		n := strings.Count(f.Text, "|") + 1
		if n > maxGPUs {
			return nil, fmt.Errorf("%s has %d values: more GPUs than a host has", f.Name, n)
		}
		if gpus == nil {
			gpus = make([]GPU, n)
		}
		if len(gpus) != n {
			return nil, fmt.Errorf("%s has %d values, the attribute before it %d", f.Name, n, len(gpus))
		}
		i := 0
		for word := range strings.SplitSeq(f.Text, "|") {
			if err := gpus[i].set(f.Name, word); err != nil {
				return nil, fmt.Errorf("%s of GPU %d: %w", f.Name, i, err)
			}
			i++
		}
	}
	return gpus, nil // nil where no attribute is one that is known
}
