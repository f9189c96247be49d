// Package e2e holds what is true of the whole: jobs on a real Slurm, their spools,
// their delivery, the faults a node can have, and what the binaries may link. It
// sees the programs from outside, as a site does.
//
// The tests on a real Slurm need root and the build tag e2e; `make test` runs them.
package e2e
