//go:build !cgo

package gpu

import (
	"errors"
	"fmt"
)

// nvidia replaces NVML, which can only be loaded with cgo.
type nvidia struct{}

func newNVIDIA(_, _ bool) driver { return nvidia{} }

func (nvidia) vendor() string { return "NVIDIA" }

func (nvidia) close() {}

func (nvidia) read(r *reading) {
	r.missing, r.processesShort = true, true
	r.fail(fmt.Errorf("the node has NVIDIA's driver, and this program was built without cgo, which NVML needs: %w", errors.ErrUnsupported))
}
