package procfile

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// Stat has the fields of /proc/<pid>/stat that are used, see proc_pid_stat(5).
// Times are in ticks of USER_HZ, 100 a second.
type Stat struct {
	Comm    []byte    // field 2 without its parentheses, at most 15 bytes; part of the parsed text
	State   byte      // field 3; Z and X are processes that have ended
	PPID    int       // field 4
	PGRP    int       // field 5: process group, 0 of a kernel thread
	Own     [2]uint64 // fields 14, 15: user and system time of all threads
	Waited  [2]uint64 // fields 16, 17: the same of the children that it has waited for, and of theirs
	Threads uint64    // field 20
	Start   uint64    // field 22: ticks after boot; with the pid it identifies a process
	RSS     uint64    // field 24, pages
}

// used has a bit for each numeric field of Stat.
const used = 1<<4 | 1<<5 | 0xf<<14 | 1<<20 | 1<<22 | 1<<24

// ParseStat parses the line; ok is false for a text of another form. The name may
// hold blanks and parentheses: the last parenthesis ends it.
func ParseStat(b []byte) (s Stat, ok bool) {
	from, to := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if from < 0 || to < from {
		return Stat{}, false
	}
	state, rest := Field(Trim(b[to+1:]))
	if len(state) != 1 {
		return Stat{}, false
	}
	var v [25]uint64 // by the number of the field
	for i := 4; i < len(v); i++ {
		var word []byte
		word, rest = Field(rest)
		v[i], ok = Uint(word)
		if !ok && used>>i&1 != 0 {
			return Stat{}, false
		}
	}
	return Stat{
		Comm: b[from+1 : to], State: state[0], PPID: int(v[4]), PGRP: int(v[5]),
		Own: [2]uint64(v[14:]), Waited: [2]uint64(v[16:]), Threads: v[20], Start: v[22], RSS: v[24],
	}, v[4] < 1<<31 && v[5] < 1<<31
}

// ReadStat reads and parses <procRoot>/<pid>/stat once; it allocates.
func ReadStat(procRoot string, pid int) (Stat, error) {
	path := filepath.Join(procRoot, strconv.Itoa(pid), "stat")
	text, err := os.ReadFile(path)
	if err != nil {
		return Stat{}, err
	}
	s, ok := ParseStat(text)
	if !ok {
		return Stat{}, fmt.Errorf("parse %s: not in the form of proc_pid_stat(5)", path)
	}
	return s, nil
}

// Alive reports whether the process with that start time still runs. A zombie does
// not: it remains for ever if its parent never waits for it.
func Alive(procRoot string, pid int, start uint64) bool {
	s, err := ReadStat(procRoot, pid)
	return err == nil && s.Start == start && !s.Ended()
}

// Ended reports whether the process has ended: a zombie remains until its parent
// waits for it.
func (s *Stat) Ended() bool { return s.State == 'Z' || s.State == 'X' }
