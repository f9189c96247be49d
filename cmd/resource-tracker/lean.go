package main

import (
	"runtime"
	"runtime/debug"
)

// beLean has the process use little of a machine that is there for others.
func beLean() {
	// Two processors are enough. A number that is said is also not looked up in the
	// cgroup's limits once a second.
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(25) // garbage is collected at 1 MiB, not at 4: what the start leaves does not stay
}
