package environ

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// startName is the last variable of a PrologText: when tracking begins, in nanoseconds since the epoch. A text
// without it is not complete.
const startName = "RT_START"

// nodeName has the name of the node.
const nodeName = "SLURMD_NODENAME"

// PrologText returns what a Prolog sends to the tracker of the run: each item as NAME=value and a
// zero byte. The items are the variables that FromHook reads, and the node and the start of the
// run. ParsePrologText makes the run from the text.
func PrologText(env Env, run *rt.Run) []byte {
	var text []byte
	add := func(name, value string) { text = fmt.Appendf(text, "%s=%s\x00", name, value) }
	for name, value := range env {
		isRead := strings.HasPrefix(name, "SLURM") || name == "CUDA_VISIBLE_DEVICES"
		isTooLong := len(value) > slurm.MaxValue // Env.Text ignores such a value
		if isRead && !isTooLong && name != nodeName {
			add(name, value)
		}
	}
	add(nodeName, run.Node)
	add(startName, strconv.FormatInt(run.Start.UnixNano(), 10))
	return text
}

// ParsePrologText makes the run of a PrologText, as FromHook does: its caller sets Run.Group and calls
// slurm.Describe.
func ParsePrologText(text []byte) (rt.Run, error) {
	entries, isWhole := bytes.CutSuffix(text, []byte{0})
	first := bytes.LastIndexByte(entries, 0) + 1 // of the last entry
	start, isStart := bytes.CutPrefix(entries[first:], []byte(startName+"="))
	if !isWhole || !isStart {
		return rt.Run{}, fmt.Errorf("it is not complete (%s is not its last variable): rt-prolog was stopped while it sent the run, or has another version than this rt-tracker", startName)
	}
	ns, err := strconv.ParseInt(string(start), 10, 64)
	if err != nil {
		return rt.Run{}, fmt.Errorf("%s: %w", startName, err)
	}
	run, err := FromHook(NewEnv(strings.Split(string(entries), "\x00")), time.Unix(0, ns).UTC())
	if err != nil {
		return rt.Run{}, err
	}
	if run.Node == "" {
		return rt.Run{}, errors.New(nodeName + " is not set")
	}
	return run, nil
}
