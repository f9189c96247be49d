// Package hostfacts combines the facts of the machine: from its own files, its drivers and
// the metadata service of its cloud, without the fields that a user suppresses. It also has
// their cache. It links no network code: the caller passes the function that queries the
// cloud.
package hostfacts

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/host"
)

// Lookup returns a variable of the environment, see os.LookupEnv.
type Lookup func(name string) (value string, set bool)

// Local returns the facts in the machine's own files, without the suppressed ones.
func Local(roots host.Roots, env Lookup) rt.Host {
	return Drop(host.Read(roots), Suppressed(env))
}

// Start runs probe in the background and sends its facts joined with local, without the
// suppressed fields. The channel gets one value, at the latest when probe returns, and need
// not be received. probe is not called if all cloud_* fields are suppressed.
func Start(ctx context.Context, local rt.Host, env Lookup, probe func(context.Context) rt.Host) <-chan rt.Host {
	out := make(chan rt.Host, 1)
	drop := Suppressed(env)
	go func() {
		found := local
		defer func() {
			if recover() != nil { // the run continues without the cloud's facts
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

// Join adds a cloud's facts to the machine's. The cloud's host_allocation replaces the
// machine's, because a hypervisor does not imply a shared host.
func Join(local, cloud rt.Host) rt.Host {
	h := local
	h.CloudVendorID, h.CloudAccountID = cloud.CloudVendorID, cloud.CloudAccountID
	h.CloudRegionID, h.CloudZoneID = cloud.CloudRegionID, cloud.CloudZoneID
	h.CloudInstanceType = cloud.CloudInstanceType
	h.HostAllocation = cmp.Or(cloud.HostAllocation, local.HostAllocation)
	return h
}

// AddGPUs sets the host_gpu_* fields from a reading of all GPUs. MIG instances are parts of
// a GPU: they are not counted, but they have its memory. The sum of memory is absent if
// that of one GPU is. Without GPUs AddGPUs sets nothing, because a driver that did not
// answer does not mean zero GPUs.
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
		count++
		if count == 1 {
			h.GPUModel = gpus[i].Name
		}
		isDivided := i+1 < len(gpus) && instance(&gpus[i+1])
		hasMemory := ok || isDivided
		known = known && hasMemory
	}
	if count == 0 {
		return
	}
	h.GPUCount.Set(count)
	if known {
		h.GPUVRAMMiB.Set(sum >> 20)
	}
}

// instance reports whether g is a MIG instance: NVIDIA's UUIDs begin with MIG- or GPU-.
func instance(g *rt.GPUReading) bool { return strings.HasPrefix(g.UUID, "MIG-") }

// Fact is one field by its name in the specification.
type Fact struct{ Name, Value string }

// Facts returns the known fields in the order of the specification, formatted for a screen.
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

// field is one of rt.Host by its name in the specification.
type field struct {
	name  string
	value reflect.Value // can be set
}

func fields(h *rt.Host) []field {
	v := reflect.ValueOf(h).Elem()
	var out []field
	for f, value := range v.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, field{name, value})
	}
	return out
}

// Suppressed returns the names of the fields that the environment suppresses. The variable
// of a field is TRACKER_ and its name in upper case; "0" or an empty value suppresses the
// field (TRACKER_HOST_IP=0).
func Suppressed(env Lookup) []string {
	var names []string
	for _, f := range fields(new(rt.Host)) {
		v, isSet := env("TRACKER_" + strings.ToUpper(f.name))
		isOff := v == "" || v == "0"
		if isSet && isOff {
			names = append(names, f.name)
		}
	}
	return names
}

// Drop returns h without the named fields.
func Drop(h rt.Host, names []string) rt.Host {
	for _, f := range fields(&h) {
		if slices.Contains(names, f.name) {
			f.value.SetZero()
		}
	}
	return h
}

// allOfCloud reports whether all fields that come from a cloud are suppressed.
func allOfCloud(suppressed []string) bool {
	for _, f := range fields(new(rt.Host)) {
		if strings.HasPrefix(f.name, "cloud_") && !slices.Contains(suppressed, f.name) {
			return false
		}
	}
	return true
}
