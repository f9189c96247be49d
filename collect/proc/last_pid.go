package proc

import (
	"bytes"

	"github.com/resource-tracker/rt/internal/procfile"
)

// LastPID reads the pid that the kernel assigned last from /proc/loadavg
// (proc_loadavg(5)): while it does not change, no process and no thread is created.
type LastPID struct {
	file file
}

// NewLastPID returns a reader that opens nothing before the first Read.
func NewLastPID(fs FS) *LastPID { return &LastPID{file: file{path: fs.Proc + "/loadavg"}} }

// Read returns the pid, and false if it cannot be read.
func (n *LastPID) Read() (pid uint64, ok bool) {
	b, err := n.file.read()
	if err != nil {
		return 0, false
	}
	b = procfile.Trim(b)
	return procfile.Uint(b[bytes.LastIndexByte(b, ' ')+1:])
}

// Close closes the descriptor.
func (n *LastPID) Close() error { return n.file.close() }
