// Package rt holds the nouns of per-job resource tracking: a Run, the Snapshots
// taken of it, and the Samples derived from them. It does no I/O.
//
// A Snapshot is what the kernel and the drivers reported at one instant: cumulative
// counters and gauges, never rates. A Sample describes one interval: rates, differences
// and percentages. Derive computes a Sample from two Snapshots; it is a pure function.
//
// A value that was not read is absent (see Opt), never zero.
package rt
