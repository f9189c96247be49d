// Package random has the seed of a test's random choices, such as the places of faults in a test's short form. Over
// many runs each place is visited.
package random

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns a seed, which the test logs. The environment variable RT_SEED sets it, to repeat an earlier run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	n := uint64(time.Now().UnixNano())
	if text := os.Getenv("RT_SEED"); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("RT_SEED: %v", err)
		}
	}
	t.Logf("RT_SEED=%d", n)
	return n
}

// Below returns a number from 0 to n-1 for Seed.
func Below(t testing.TB, n int) int {
	t.Helper()
	return int(Seed(t) % uint64(n))
}
