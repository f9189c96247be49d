package ftdc

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/resource-tracker/rt"
)

// part is a kind of device of a snapshot: a slice, one metric per field and element.
type part struct {
	kind  string // the first word of its metrics
	guest bool   // its elements come and go, see guest
	// in returns the slice of s.
	in func(s *rt.Snapshot) reflect.Value
	// key names an element; it may hold dots. named makes the element of a key.
	key   func(element reflect.Value) string
	named func(key string, element reflect.Value) error
}

// fixed are the structs of a snapshot that are there once.
func fixed(s *rt.Snapshot) [4]struct {
	kind string
	v    reflect.Value
} {
	return [...]struct {
		kind string
		v    reflect.Value
	}{
		{"node", reflect.ValueOf(&s.Node).Elem()}, {"job", reflect.ValueOf(&s.Job).Elem()},
		{"gpus", reflect.ValueOf(&s.GPU).Elem()}, {"tree", reflect.ValueOf(&s.Tree).Elem()},
	}
}

// devicePart is a part whose elements are named by the given text or number fields,
// with a slash between them. The last may hold slashes.
func devicePart[T any](kind string, in func(*rt.Snapshot) *[]T, fields ...string) part {
	identities[reflect.TypeFor[T]()] = fields
	return part{
		kind: kind,
		in:   func(s *rt.Snapshot) reflect.Value { return reflect.ValueOf(in(s)).Elem() },
		key: func(element reflect.Value) string {
			words := make([]string, len(fields))
			for i, f := range fields {
				words[i] = keyText(element.FieldByName(f))
			}
			return strings.Join(words, "/")
		},
		named: func(key string, element reflect.Value) error {
			words := strings.SplitN(key, "/", len(fields))
			if len(words) != len(fields) {
				return fmt.Errorf("%q does not name a %s: it is %s", key, kind, strings.Join(fields, "/"))
			}
			for i, f := range fields {
				if err := setKeyText(element.FieldByName(f), words[i]); err != nil {
					return fmt.Errorf("%q does not name a %s: %w", key, kind, err)
				}
			}
			return nil
		},
	}
}

// keyText is a field of an element's name; what is absent is empty.
func keyText(v reflect.Value) string {
	switch p := v.Addr().Interface().(type) {
	case *rt.Opt[uint64]:
		if n, ok := p.Get(); ok {
			return fmt.Sprint(n)
		}
		return ""
	}
	return strings.ToValidUTF8(fmt.Sprint(v.Interface()), "?")
}

func setKeyText(v reflect.Value, text string) error {
	switch p := v.Addr().Interface().(type) {
	case *rt.Opt[uint64]:
		var n uint64
		if text == "" {
			return nil
		}
		_, err := fmt.Sscan(text, &n)
		p.Set(n)
		return err
	}
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	_, err := fmt.Sscan(text, v.Addr().Interface())
	return err
}

// guestPart is a part whose elements come and go.
func guestPart[T any](kind string, in func(*rt.Snapshot) *[]T, fields ...string) part {
	p := devicePart(kind, in, fields...)
	p.guest = true
	return p
}

// The first words of the metrics of guests.
const (
	processKind    = "proc"
	gpuProcessKind = "gpuproc"
)

// parts are the lists of a snapshot.
var parts = []part{
	devicePart("cpu", func(s *rt.Snapshot) *[]rt.CPUReading { return &s.CPUs }, "CPU"),
	devicePart("net", func(s *rt.Snapshot) *[]rt.NetReading { return &s.Nets }, "Name"),
	devicePart("disk", func(s *rt.Snapshot) *[]rt.DiskReading { return &s.Disks }, "Name"),
	devicePart("mount", func(s *rt.Snapshot) *[]rt.MountReading { return &s.Mounts }, "Disk", "FSType", "MountPoint"),
	devicePart("gpu", func(s *rt.Snapshot) *[]rt.GPUReading { return &s.GPUs }, "UUID"),
	devicePart("fabric", func(s *rt.Snapshot) *[]rt.FabricReading { return &s.Fabrics }, "Port", "Device"),
	devicePart("remotefs", func(s *rt.Snapshot) *[]rt.RemoteFSReading { return &s.RemoteFS }, "Kind", "Source", "MountPoint"),
	devicePart("step", func(s *rt.Snapshot) *[]rt.StepReading { return &s.Steps }, "Task", "Step"),
	devicePart("energy", func(s *rt.Snapshot) *[]rt.EnergyReading { return &s.Energy }, "Source", "Kind", "Domain"),
	devicePart("perf", func(s *rt.Snapshot) *[]rt.PerfReading { return &s.Perf }, "Group", "Socket", "CPU", "Event"),
	guestPart(processKind, func(s *rt.Snapshot) *[]rt.ProcessReading { return &s.Procs }, "PID", "Start", "Task", "Step", "Comm"),
	guestPart(gpuProcessKind, func(s *rt.Snapshot) *[]rt.GPUProcessReading { return &s.GPUProcesses }, "UUID", "PID"),
}
