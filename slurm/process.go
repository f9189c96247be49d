package slurm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// processStat is what is needed of /proc/<pid>/stat, see proc_pid_stat(5).
type processStat struct {
	state byte   // field 3: Z and X are dead
	ppid  int    // field 4
	start uint64 // field 22: ticks after boot; with the pid it names a process for good
}

func readStat(procRoot string, pid int) (processStat, error) {
	path := filepath.Join(procRoot, strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(path)
	if err != nil {
		return processStat{}, err
	}
	stat, ok := parseStat(text)
	if !ok {
		return processStat{}, fmt.Errorf("%s: not in the form of proc_pid_stat(5)", path)
	}
	return stat, nil
}

// parseStat reads /proc/<pid>/stat. Field 2, the name, may hold spaces and
// parentheses; what follows its last parenthesis holds none.
func parseStat(text []byte) (processStat, bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return processStat{}, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return processStat{}, false
	}
	ppid, err1 := strconv.Atoi(string(fields[1]))
	start, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	return processStat{state: fields[0][0], ppid: ppid, start: start}, err1 == nil && err2 == nil
}

// alive tells whether the process that was started then still runs. A zombie
// does not: where nobody reaps, it stays for ever.
func alive(procRoot string, pid int, start uint64) bool {
	stat, err := readStat(procRoot, pid)
	return err == nil && stat.start == start && stat.state != 'Z' && stat.state != 'X'
}
