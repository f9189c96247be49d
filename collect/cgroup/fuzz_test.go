package cgroup

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// FuzzExtra: PSI and RDMA say nothing of lines that are none of theirs.
func FuzzExtra(f *testing.F) {
	f.Add([]byte("some avg10=3.54 avg60=0.88 avg300=0.19 total=630180\nfull avg10=0.47 avg60=0.12 avg300=0.02 total=138490\n"))
	f.Add([]byte("mlx5_0 hca_handle=2 hca_object=2000\nmlx5_1 hca_handle=1 hca_object=max\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, parse := range []func(b []byte, x, y *rt.Opt[uint64]){parsePressure, parseRDMA} {
			var once, framed [2]rt.Opt[uint64]
			parse(b, &once[0], &once[1])
			parse(slices.Concat([]byte("x\n\nx y\n"), b, []byte("\nx")), &framed[0], &framed[1])
			if once != framed {
				t.Errorf("parser %d: %q reads otherwise between lines that mean nothing: %v, %v", i, b, once, framed)
			}
		}
	})
}

// FuzzProcStat: the command's name, whatever is in it, changes nothing.
func FuzzProcStat(f *testing.F) {
	f.Add([]byte(" Z 7 1 1 0 -1 4194560 1 0 0 0 3 4 90 90 20 0 1 0 998877 1 1\n"))
	f.Add([]byte(" S 1 1 1 0 -1 4194560 1 0 0 0 18446744073709551615 4 0 0 20 0 1 0 1 1 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.IndexByte(b, ')') >= 0 {
			return
		}
		u1, s1, ok1 := parseProcStat(append([]byte("1 (a)"), b...))
		u2, s2, ok2 := parseProcStat(append([]byte("1 (S 9) 9 9)"), b...))
		if u1 != u2 || s1 != s2 || ok1 != ok2 || u1.user < 0 || u1.system < 0 {
			t.Errorf("%q: %+v %d %t and %+v %d %t", b, u1, s1, ok1, u2, s2, ok2)
		}
	})
}

// FuzzGroupOf: what is a step's or task's names it.
func FuzzGroupOf(f *testing.F) {
	f.Add(2, "step_batch/user/task_0")
	f.Add(1, "step_0/task_4294967293")
	f.Fuzz(func(t *testing.T, version int, rel string) {
		step, task, ok := groupOf(version, rel)
		if ok && !strings.HasPrefix(rel, "step_"+step) || task.Valid() && !strings.Contains(rel, "/task_") {
			t.Errorf("v%d %q is of %q %v", version, rel, step, task)
		}
	})
}
