package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/internal/recovery"
)

// Lookup returns a variable of the environment, see os.LookupEnv.
type Lookup func(name string) (value string, set bool)

// Local returns the facts in the machine's own files, without the suppressed ones.
func Local(roots Roots, env Lookup) rt.Host {
	return Drop(Read(roots), Suppressed(env))
}

// Start runs probe in the background and sends its facts joined with local, without the
// suppressed fields. The channel gets one value, at the latest when probe returns, and need
// not be received. probe is not called if all cloud_* fields are suppressed.
func Start(ctx context.Context, local rt.Host, env Lookup, probe func(context.Context) rt.Host) <-chan rt.Host {
	out := make(chan rt.Host, 1)
	drop := Suppressed(env)
	go func() {
		found := local
		defer func() { out <- Drop(found, drop) }()
		defer recovery.Handle(func(error) {}) // the run continues without the cloud's facts
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

// AddGPUs sets the host_gpu_* fields from a reading of all GPUs. MIG instances are parts of a GPU:
// they are not counted, but have its memory. The sum of memory is absent if one GPU's memory is.
// Without GPUs AddGPUs sets nothing, because a driver that did not answer does not mean zero GPUs.
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

// Cache is the file that `rt-spool host` writes, so that trackers query no service.
type Cache struct {
	BootID      string    `json:"boot_id"`      // of the boot in which it was written
	CollectedAt time.Time `json:"collected_at"` // when the facts were read
	Suppressed  []string  `json:"suppressed"`   // fields that its writer's environment suppressed
	Host        rt.Host   `json:"host"`
}

const (
	maxAge   = 30 * 24 * time.Hour // of a cache from another boot
	maxCache = 64 << 10            // bytes of the file
	maxText  = 256                 // bytes of a field
)

// Save replaces the cache atomically and durably: a reader finds the old file or the new
// one, also after a power failure. All users may read it.
func Save(path string, c Cache) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = replace(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the host's facts for the trackers (tracker.host_cache names the file): %w", err)
	}
	return nil
}

func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return file.SyncDir(filepath.Dir(path))
}

// Load reads the cache. A missing file is fs.ErrNotExist.
func Load(path string) (Cache, error) {
	text, err := file.ReadSmall(path, maxCache)
	isRefused := errors.Is(err, file.ErrRefused)
	if err != nil && !isRefused {
		return Cache{}, fmt.Errorf("read the host's facts: %w", err)
	}
	var c Cache
	if err == nil {
		c, err = parse(text)
	}
	if err != nil {
		return Cache{}, fmt.Errorf("%s is not what `rt-spool host` writes: %w; run it again", path, err)
	}
	return c, nil
}

func parse(text []byte) (Cache, error) {
	var c Cache
	if err := json.Unmarshal(text, &c); err != nil {
		return Cache{}, err
	}
	if c.CollectedAt.IsZero() {
		return Cache{}, errors.New("collected_at is missing")
	}
	for _, f := range fields(&c.Host) {
		if s, ok := f.value.Interface().(string); ok && !isShortText(s) {
			return Cache{}, fmt.Errorf("%s is not a text of at most %d bytes", f.name, maxText)
		}
	}
	return c, nil
}

func isShortText(s string) bool {
	return len(s) <= maxText && printable.Is(s)
}

// errStale means that a cache is of another machine or too old.
var errStale = errors.New("the host's facts are out of date; run `rt-spool host` at boot")

// check returns an error if the cache is of another machine or too old. A cache of another boot may
// come from a disk image, so its host_id must be this machine's.
func (c *Cache) check(bootID, hostID string, now time.Time) error {
	if c.BootID != "" && c.BootID == bootID {
		return nil
	}
	if c.Host.HostID == "" || c.Host.HostID != hostID {
		return fmt.Errorf("%w: they are those of another machine", errStale)
	}
	if age := now.Sub(c.CollectedAt); age > maxAge || age < -time.Hour {
		return fmt.Errorf("%w: they were read at %s", errStale, c.CollectedAt.Format(time.RFC3339))
	}
	return nil
}

// Known returns the host's facts without a query: the cached facts with the present name and
// address. If there is no valid cache it returns the facts from the machine's files and the error
// of the cache. An empty path means no cache and is no error.
func Known(path string, roots Roots, env Lookup, now time.Time) (rt.Host, error) {
	if path == "" {
		return Local(roots, env), nil
	}
	c, err := Load(path)
	if err == nil {
		bootID, _ := BootID(roots.Proc) // unknown matches no cache
		err = c.check(bootID, roots.ID(), now)
	}
	if err != nil {
		return Local(roots, env), err
	}
	h := c.Host
	h.HostName, h.HostIP = roots.Name(), roots.IP()
	return Drop(Drop(h, c.Suppressed), Suppressed(env)), nil
}

// Machine has the sources of a host's facts.
type Machine struct {
	Roots Roots
	Env   Lookup
	GPUs  func(context.Context) []rt.GPUReading
	Cloud func(context.Context) rt.Host
}

// Facts reads all sources. An interrupted read is an error: it must not replace better facts.
func (m *Machine) Facts(ctx context.Context, now time.Time) (Cache, error) {
	boot, err := BootID(m.Roots.Proc)
	if err != nil {
		return Cache{}, err
	}
	known := Start(ctx, Read(m.Roots), m.Env, m.Cloud)
	gpus := m.GPUs(ctx) // while the cloud's service answers
	h := <-known
	if ctx.Err() != nil {
		return Cache{}, fmt.Errorf("find out the facts of this host: %w", ctx.Err())
	}
	AddGPUs(&h, gpus)
	drop := Suppressed(m.Env)
	return Cache{BootID: boot, CollectedAt: now, Suppressed: drop, Host: Drop(h, drop)}, nil
}
