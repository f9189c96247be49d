// Package proc reads the node and its processes from /proc and /sys.
//
// Each source keeps its descriptors open and reads again with pread; its parser
// is a pure function of bytes, and once the buffers have grown a reading
// allocates nothing. The kernel's documents: Documentation/filesystems/proc.rst,
// Documentation/admin-guide/iostats.rst, Documentation/ABI/testing/sysfs-class-net
// and .../sysfs-block.
package proc

import "path/filepath"

// FS says where the kernel's trees are. The zero value is of no use: see NewFS.
type FS struct {
	Proc string // where procfs is mounted
	Sys  string // where sysfs is mounted
	Root string // what goes before a mount point to reach it; empty for the machine that we run on
}

// NewFS returns the trees below other roots: /proc and /sys, or a container's
// view of its host, or a fixture.
func NewFS(procRoot, sysRoot string) FS {
	return FS{Proc: filepath.Clean(procRoot), Sys: filepath.Clean(sysRoot)}
}
