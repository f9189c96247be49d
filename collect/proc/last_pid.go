package proc

import (
	"bytes"

	"github.com/resource-tracker/rt/internal/procfile"
)

// LastPID reads /proc/loadavg (proc_loadavg(5)) for the pid that the kernel gave out
// last: while it is the same, no process and no thread has begun.
type LastPID struct {
	file file
}

// NewLastPID returns a reader that opens nothing before it is asked.
func NewLastPID(fs FS) *LastPID { return &LastPID{file: file{path: fs.Proc + "/loadavg"}} }

// Read returns the pid, and false where it is not to be had.
func (n *LastPID) Read() (pid uint64, ok bool) {
	b, err := n.file.read()
	if err != nil {
		return 0, false
	}
	b = procfile.Trim(b)
	return procfile.Uint(b[bytes.LastIndexByte(b, ' ')+1:])
}

// Close gives the descriptor back.
func (n *LastPID) Close() error { return n.file.close() }
