package hostfacts

import (
	"context"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
)

// Machine has the sources of a host's facts.
type Machine struct {
	Roots host.Roots
	Env   Lookup
	GPUs  func(context.Context) []rt.GPUReading
	Cloud func(context.Context) rt.Host
}

// Facts reads all sources. An interrupted read is an error: it must not replace better facts.
func (m *Machine) Facts(ctx context.Context, now time.Time) (Cache, error) {
	boot, err := host.BootID(m.Roots.Proc)
	if err != nil {
		return Cache{}, err
	}
	known := Start(ctx, host.Read(m.Roots), m.Env, m.Cloud)
	gpus := m.GPUs(ctx) // while the cloud's service answers
	h := <-known
	if ctx.Err() != nil {
		return Cache{}, fmt.Errorf("find out the facts of this host: %w", ctx.Err())
	}
	AddGPUs(&h, gpus)
	drop := Suppressed(m.Env)
	return Cache{BootID: boot, CollectedAt: now, Suppressed: drop, Host: Drop(h, drop)}, nil
}
