package sonar

import (
	"fmt"
	"strconv"
	"strings"
)

// GPU is the state of one GPU of the host: an element of gpuinfo. JSON has the names of the new format.
type GPU struct {
	FanPct      uint64 `sonar:"fan%" json:"fan"`          // of its highest speed; may exceed 100
	Mode        string `sonar:"mode" json:"compute_mode"` // compute mode; empty for the default one
	Perf        string `sonar:"perf" json:"-"`            // performance state, "P8"
	MemUseKiB   uint64 `sonar:"musekib" json:"memory"`
	UtilPct     uint64 `sonar:"cutil%" json:"ce_util"` // of the time in which it computed
	MemUtilPct  uint64 `sonar:"mutil%" json:"memory_util"`
	TempC       uint64 `sonar:"tempc" json:"-"`    // degrees Celsius
	PowerW      uint64 `sonar:"poww" json:"power"` // watts
	PowerLimitW uint64 `sonar:"powlimw" json:"power_limit"`
	ClockMHz    uint64 `sonar:"cez" json:"ce_clock"` // of the compute elements
	MemClockMHz uint64 `sonar:"memz" json:"memory_clock"`
	UUID        string `json:"uuid"` // in the new format only
}

// maxGPUs bounds the GPUs of a host.
const maxGPUs = 4096

// gpuColumns are the attributes of a GPU in the order of the page of the format.
var gpuColumns = columnsOf[GPU]()

// absent returns the text of an attribute without a value in CSV. The last value of a list must not be empty: readers
// drop such a record.
func absent(name string) string {
	switch name {
	case "mode":
		return "Default"
	case "perf":
		return "Unknown"
	}
	return "0"
}

// set parses one attribute. It ignores unknown ones.
func (g *GPU) set(name, text string) error {
	at := find(gpuColumns, g, name)
	none := ""
	if _, isText := at.(*string); isText {
		none = absent(name)
	}
	if text == none {
		return nil
	}
	return parse(at, text)
}

// element returns the attribute for a list in CSV, and whether it has a value.
func (c column) element(rec any) (text string, ok bool) {
	switch p := c.at(rec).(type) {
	case *uint64:
		return strconv.FormatUint(*p, 10), *p != 0
	case *string:
		if *p != "" {
			return strings.ReplaceAll(clean(*p), "|", "/"), true
		}
	}
	return absent(c.name), false
}

// appendGPUInfo appends the nested value of gpuinfo: for each attribute that a GPU has, a list over the
// GPUs. Every list has a value for each GPU, and no value is empty: readers fail otherwise.
func appendGPUInfo(dst []byte, gpus []GPU) []byte {
	e := encoder{dst: dst, start: len(dst)}
	words := make([]string, len(gpus))
	for n := range gpuColumns {
		used := false
		for i := range gpus {
			text, ok := gpuColumns[n].element(&gpus[i])
			words[i], used = text, used || ok
		}
		if used {
			e.text(gpuColumns[n].name, strings.Join(words, "|"))
		}
	}
	if len(e.dst) == e.start { // at least the number of GPUs
		e.text(gpuColumns[0].name, strings.TrimPrefix(strings.Repeat("|0", len(gpus)), "|"))
	}
	return e.dst
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
		if find(gpuColumns, &GPU{}, f.Name) == nil {
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
