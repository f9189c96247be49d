//go:build !cgo

package gpu

import (
	"errors"
	"testing"

	"github.com/resource-tracker/rt"
)

// fixtures are sources of nodes with GPUs.
func fixtures(t *testing.T) map[string]*Source {
	return map[string]*Source{"AMD": open(t, t.TempDir(), amdNode(t))}
}

func TestWithoutCgo(t *testing.T) {
	dir := touch(t, "nvidiactl")
	var s rt.Snapshot
	if err := open(t, dir, dir).Read(&s); !errors.Is(err, errors.ErrUnsupported) || len(s.GPUs) != 0 {
		t.Errorf("%v, %+v", err, s.GPUs)
	}
	wantSums(t, &s.Node, rt.None[float64](), rt.None[uint64](), rt.None[uint64]())
}
