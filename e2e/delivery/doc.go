// Package delivery holds what is true of the way from a spool to a receiver, with
// the real programs and without a cluster: whatever is killed, whenever, each run
// arrives once and whole.
//
// The tests have the build tag e2e; `make test` runs them. RT_BIN names the
// directory of the programs, RT_SEED the seed of the random ones.
package delivery
