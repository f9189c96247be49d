package main

import (
	"os"
	"strings"
	"syscall"
)

// readyFD is where rt-prolog waits for one line: "ready", or "error: ...".
const readyFD = 3

// ready reports to rt-prolog, once, whether tracking has begun.
type ready struct {
	pipe *os.File
}

// openReady uses descriptor 3 if it is a pipe; a tracker that was started by hand has
// none.
func openReady() *ready {
	var st syscall.Stat_t
	if syscall.Fstat(readyFD, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFIFO {
		return &ready{}
	}
	syscall.CloseOnExec(readyFD)
	return &ready{pipe: os.NewFile(readyFD, "ready")}
}

// send writes the line and closes the pipe. It reports whether the Prolog could read it:
// the tracker must log an error that it could not send.
func (r *ready) send(line string) bool {
	if r.pipe == nil {
		return false
	}
	line = strings.ReplaceAll(line, "\n", " ")
	_, err := r.pipe.WriteString(line + "\n")
	r.pipe.Close()
	r.pipe = nil
	return err == nil
}
