// Package rt holds the nouns of per-job resource tracking: a Run, the Snapshots
// taken of it, and the Samples derived from them. It does no I/O.
//
// A Snapshot is what the kernel and the drivers reported at one instant: cumulative
// counters and gauges, never rates. A Sample describes one interval: rates, differences
// and percentages. Derive computes a Sample from two Snapshots; it is a pure function.
//
// A value that was not read is absent (see Opt), never zero.
package rt

import (
	"fmt"
	"runtime"
)

// Version of the suite, as printed by --version and written into every JSON
// sample. Release builds replace it with -ldflags -X.
var Version = "0.2.0"

// Commit is the commit that the suite was built from, with "-dirty" if files differed from
// it. It is empty if the build does not know it. The Makefile sets it with -ldflags -X.
var Commit string

// SpoolSchema is the version of the tables of a spool file (user_version) that this version
// of the suite writes.
const SpoolSchema = 2

// VersionLine returns what a program prints for --version, without a newline:
//
//	rt-spool 0.2.0 (commit 2a56fd5, go1.26.0, spool schema 2)
func VersionLine(program string) string {
	commit := ""
	if Commit != "" {
		commit = "commit " + Commit + ", "
	}
	return fmt.Sprintf("%s %s (%s%s, spool schema %d)", program, Version, commit, runtime.Version(), SpoolSchema)
}
