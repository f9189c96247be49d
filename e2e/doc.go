// Package e2e tests the programs as a whole: jobs on a real Slurm, their spools, their delivery, a node's faults, and
// the linked packages. It uses the programs only from outside, as a site does.
//
// The tests on a real Slurm need root and the build tag e2e; `make test` runs them.
package e2e
