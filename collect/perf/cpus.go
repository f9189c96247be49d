package perf

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt/internal/procfile"
)

// cpu is a logical CPU and its socket.
type cpu struct{ number, socket int }

// cpus lists the CPUs of a mask, or all online CPUs.
func cpus(sys, mask string) ([]cpu, error) {
	path := filepath.Join(sys, "devices/system/cpu/online")
	if m := filepath.Join(sys, mask); mask != "" && exists(m) {
		path = m
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &StatusError{Failed, fmt.Errorf("list the CPUs: %w", err)}
	}
	numbers, err := parseList(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, &StatusError{Failed, fmt.Errorf("%s: %w", path, err)}
	}
	var out []cpu
	for _, n := range numbers {
		c := cpu{number: n}
		text := procfile.Text(sys, fmt.Sprintf("devices/system/cpu/cpu%d/topology/physical_package_id", n))
		if socket, err := strconv.Atoi(text); err == nil && socket >= 0 {
			c.socket = socket // 0 on a machine without sockets
		}
		out = append(out, c)
	}
	return out, nil
}

// parseList parses "0-3,8".
func parseList(text string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(text, ",") {
		from, last, ok := procfile.Range(part, 16)
		isAscending := len(out) == 0 || int(from) > out[len(out)-1]
		if !ok || !isAscending {
			return nil, fmt.Errorf("%q is not a list of CPUs", text)
		}
		for n := from; n <= last; n++ {
			out = append(out, int(n))
		}
	}
	return out, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
