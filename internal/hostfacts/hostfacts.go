// Package hostfacts brings together what is known of the machine: what its own
// files say, what drivers and metadata services say, what a user wants suppressed,
// and the cache of all that. It links no network code: who wants the cloud's facts
// hands in the function that asks for them.
package hostfacts

import (
	"context"
	"fmt"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
)

// Lookup finds a variable of the environment, as os.LookupEnv does.
type Lookup func(name string) (value string, set bool)

// Local reads the facts that the machine's own files tell, but for the suppressed ones.
func Local(roots host.Roots, env Lookup) rt.Host {
	return Drop(host.Read(roots), Suppressed(env))
}

// Start runs probe in the background and sends what it and local say together, but
// for the suppressed fields. The channel gets one value, at the latest when probe
// gives up, and nobody has to receive it. Where all cloud_* fields are suppressed
// probe is not run.
func Start(ctx context.Context, local rt.Host, env Lookup, probe func(context.Context) rt.Host) <-chan rt.Host {
	out := make(chan rt.Host, 1)
	drop := Suppressed(env)
	go func() {
		found := local
		defer func() {
			if recover() != nil { // the run is worth more than a fact about its machine
				found = local
			}
			out <- Drop(found, drop)
		}()
		if !allOfCloud(drop) {
			found = Join(local, probe(ctx))
		}
	}()
	return out
}

// Join lays what a cloud says over what the machine says. The cloud knows better
// whether the machine is shared: a whole host may be rented through a hypervisor.
func Join(local, cloud rt.Host) rt.Host {
	h := local
	h.CloudVendorID, h.CloudAccountID = cloud.CloudVendorID, cloud.CloudAccountID
	h.CloudRegionID, h.CloudZoneID = cloud.CloudRegionID, cloud.CloudZoneID
	h.CloudInstanceType = cloud.CloudInstanceType
	if cloud.HostAllocation != "" {
		h.HostAllocation = cloud.HostAllocation
	}
	return h
}

// AddGPUs fills in the host_gpu_* fields from a reading of all GPUs. MIG instances
// are parts of a GPU: they are not counted, but it is they that have its memory. The
// sum of memory is absent where a GPU's is. Without GPUs nothing is filled in: a
// node whose driver did not answer must not be said to have none.
func AddGPUs(h *rt.Host, gpus []rt.GPUReading) {
	var count, sum uint64
	known := true // all memory so far
	for i := range gpus {
		bytes, ok := gpus[i].VRAMTotal.Get()
		sum += bytes
		if instance(&gpus[i]) {
			known = known && ok
			continue
		}
		if count++; count == 1 {
			h.GPUModel = gpus[i].Name
		}
		divided := i+1 < len(gpus) && instance(&gpus[i+1])
		known = known && (ok || divided)
	}
	if count == 0 {
		return
	}
	h.GPUCount.Set(count)
	if known {
		h.GPUVRAMMiB.Set(sum >> 20)
	}
}

// instance says whether g is a MIG instance: NVIDIA's UUIDs begin with MIG- or GPU-.
func instance(g *rt.GPUReading) bool { return strings.HasPrefix(g.UUID, "MIG-") }

// Fact is one field by its name in the specification.
type Fact struct{ Name, Value string }

// Facts returns the known fields in the order of the specification, for people.
func Facts(h rt.Host) []Fact {
	var out []Fact
	for _, f := range fields(&h) {
		if !f.value.IsZero() {
			out = append(out, Fact{f.name, text(f.value.Interface())})
		}
	}
	return out
}

func text(v any) string {
	switch v := v.(type) {
	case rt.Opt[uint64]:
		return fmt.Sprint(v.Or(0))
	case rt.Opt[float64]:
		return fmt.Sprintf("%.1f", v.Or(0))
	}
	return fmt.Sprint(v)
}
