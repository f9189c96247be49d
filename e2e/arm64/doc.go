// Package arm64 runs the programs of linux/arm64 under qemu-user and holds what
// they say of this machine against its own /proc.
//
// The tests need the build tag qemu; `make test-arm64` builds the programs and runs
// them, after the unit tests of the same architecture (unit.sh).
package arm64
