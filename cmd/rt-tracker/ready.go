package main

import (
	"os"
	"strings"
	"syscall"
)

// readyFD is where rt-prolog waits for one line: "ready", or "error: ...".
const readyFD = 3

// ready tells whoever started us, once, whether tracking has begun.
type ready struct {
	pipe *os.File
}

// openReady takes over descriptor 3 where it is a pipe; started by hand there is none.
func openReady() *ready {
	var st syscall.Stat_t
	if syscall.Fstat(readyFD, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return &ready{}
	}
	syscall.CloseOnExec(readyFD)
	return &ready{pipe: os.NewFile(readyFD, "ready")}
}

// say writes the line and lets the Prolog go. It reports whether anyone was
// there to read it: an error that nobody reads must be logged by ourselves.
func (r *ready) say(line string) bool {
	if r.pipe == nil {
		return false
	}
	line = strings.ReplaceAll(line, "\n", " ")
	_, err := r.pipe.WriteString(line + "\n")
	r.pipe.Close()
	r.pipe = nil
	return err == nil
}
