// Package arm64 runs the programs of linux/arm64 under qemu-user and compares what they
// print about this machine with its /proc.
//
// The tests need the build tag qemu; `contrib/test/arm64` builds the programs and runs
// them, after the unit tests of the same architecture (unit.sh).
package arm64
