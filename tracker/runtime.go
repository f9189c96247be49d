package tracker

import (
	"math"
	"runtime"
	"runtime/debug"
)

// LimitRuntime limits what the Go runtime of a tracker uses: four threads at once, and a quarter of
// the heap as garbage. So the runtime collects garbage from 1 MiB on. With a fixed number of
// threads, the runtime does not read the limits of its cgroup once a second. A limit of memory in
// the environment is ignored: near it, the runtime would collect garbage all the time.
func LimitRuntime() {
	runtime.GOMAXPROCS(4)
	debug.SetGCPercent(25)
	debug.SetMemoryLimit(math.MaxInt64)
}
