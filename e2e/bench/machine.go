package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine describes the computer and how busy it is.
func machine() string {
	var uname unix.Utsname
	kernel := "unknown"
	if unix.Uname(&uname) == nil {
		kernel = unix.ByteSliceToString(uname.Release[:])
	}
	governor := ""
	text, err := os.ReadFile("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	if err == nil {
		governor = ", governor " + strings.TrimSpace(string(text))
	}
	return fmt.Sprintf("machine: %s, %d cores%s, %s of memory, Linux %s, load %s",
		firstLine("/proc/cpuinfo", "model name"), runtime.NumCPU(), governor, firstLine("/proc/meminfo", "MemTotal"), kernel, load())
}

// load returns the three load averages.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// firstLine returns the value of the first line of a file with a key.
func firstLine(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return "unknown"
}
