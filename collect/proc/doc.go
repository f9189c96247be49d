// Package proc reads the node and its processes from /proc and /sys.
//
// Each source holds its files open and reads them again with pread(2). Its parser is a
// pure function of bytes, and a reading allocates nothing once the buffers have grown.
// The files are described in Documentation/filesystems/proc.rst,
// Documentation/admin-guide/iostats.rst, Documentation/ABI/testing/sysfs-class-net
// and .../sysfs-block.
package proc

import "path/filepath"

// FS has the paths of the kernel's file systems. Use NewFS to create one.
type FS struct {
	Proc string // where procfs is mounted
	Sys  string // where sysfs is mounted
	Root string // prefix of all mount points; empty for this machine
}

// NewFS returns the file systems mounted at procRoot and sysRoot: /proc and /sys, a
// container's view of its host, or the files of a test.
func NewFS(procRoot, sysRoot string) FS {
	return FS{Proc: filepath.Clean(procRoot), Sys: filepath.Clean(sysRoot)}
}
