package slurm

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// ProcessStat is what is needed of /proc/<pid>/stat, see proc_pid_stat(5).
type ProcessStat struct {
	State byte   // field 3: Z and X are dead
	PPID  int    // field 4
	Start uint64 // field 22: ticks after boot; with the pid it names a process for good
}

// ReadStat reads /proc/<pid>/stat.
func ReadStat(procRoot string, pid int) (ProcessStat, error) {
	path := filepath.Join(procRoot, strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(path)
	if err != nil {
		return ProcessStat{}, err
	}
	stat, ok := parseStat(text)
	if !ok {
		return ProcessStat{}, fmt.Errorf("%s: not in the form of proc_pid_stat(5)", path)
	}
	return stat, nil
}

// parseStat reads /proc/<pid>/stat. Field 2, the name, may hold spaces and
// parentheses; what follows its last parenthesis holds none.
func parseStat(text []byte) (ProcessStat, bool) {
	end := bytes.LastIndexByte(text, ')')
	if end < 0 {
		return ProcessStat{}, false
	}
	fields := bytes.Fields(text[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return ProcessStat{}, false
	}
	ppid, err1 := strconv.Atoi(string(fields[1]))
	start, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	return ProcessStat{State: fields[0][0], PPID: ppid, Start: start}, err1 == nil && err2 == nil
}

// Alive tells whether the process that was started then still runs. A zombie
// does not: where nobody reaps, it stays for ever.
func Alive(procRoot string, pid int, start uint64) bool {
	stat, err := ReadStat(procRoot, pid)
	return err == nil && stat.Start == start && stat.State != 'Z' && stat.State != 'X'
}
