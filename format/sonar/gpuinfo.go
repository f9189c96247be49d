package sonar

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// GPU is the state of one GPU of the host: an element of gpuinfo.
type GPU struct {
	FanPct      uint64 // of its highest speed; may exceed 100
	Mode        string // compute mode; empty for the default one
	Perf        string // performance state, "P8"
	MemUseKiB   uint64
	UtilPct     uint64 // of the time in which it computed
	MemUtilPct  uint64
	TempC       uint64 // degrees Celsius
	PowerW      uint64 // watts
	PowerLimitW uint64
	ClockMHz    uint64 // of the compute elements
	MemClockMHz uint64
}

// maxGPUs bounds the GPUs of a host.
const maxGPUs = 4096

// gpuAttributes are the names of the fields of a GPU in the order of the page of the format.
var gpuAttributes = [...]string{
	"fan%", "mode", "perf", "musekib", "cutil%", "mutil%", "tempc", "poww", "powlimw", "cez", "memz",
}

// Texts of Mode and Perf in CSV for absent values. The last value of a list must not be empty:
// readers drop such a record.
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

// set parses one attribute. It ignores unknown ones.
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

// text returns the attribute for JSON, empty if it is omitted.
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

// element returns the attribute for a list in CSV, which must not be empty.
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

// gpuInfo returns the nested value of gpuinfo: for each attribute that a GPU has, a list over the
// GPUs. Every list has a value for each GPU, and no value is empty: readers fail otherwise.
func gpuInfo(gpus []GPU) []Field {
	var fields []Field
	for _, name := range gpuAttributes {
		if slices.ContainsFunc(gpus, func(g GPU) bool { return g.text(name) != "" }) {
			fields = append(fields, gpuList(name, gpus))
		}
	}
	if fields == nil { // at least the number of GPUs
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
	return gpus, nil // nil without known attributes
}
