package cgroup

import (
	"slices"
	"testing"

	"github.com/resource-tracker/rt"
)

// FuzzExtra: PSI and RDMA ignore malformed lines.
func FuzzExtra(f *testing.F) {
	f.Add([]byte("some avg10=3.54 avg60=0.88 avg300=0.19 total=630180\nfull avg10=0.47 avg60=0.12 avg300=0.02 total=138490\n"))
	f.Add([]byte("mlx5_0 hca_handle=2 hca_object=2000\nmlx5_1 hca_handle=1 hca_object=max\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, parse := range []func(b []byte, x, y *rt.Opt[uint64]){parsePressure, parseRDMA} {
			var once, framed [2]rt.Opt[uint64]
			parse(b, &once[0], &once[1])
			parse(slices.Concat([]byte("x\n\nx y\n"), b, []byte("\nx")), &framed[0], &framed[1])
			if once != framed {
				t.Errorf("parser %d: %q differs between lines without a meaning: %v, %v", i, b, once, framed)
			}
		}
	})
}
