package resourcetracker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/resource-tracker/rt"
)

// VersionKey is the JSON key of the version of the program that wrote a sample.
const VersionKey = "resource-tracker-version"

// AppendJSON appends one sample as one JSON object and a newline: the fields of
// section 6.1 under their names there, and the version. A number that is not
// finite is written as null.
func AppendJSON(dst []byte, s *rt.Sample, version string) []byte {
	dst = append(dst, `{"timestamp_secs":`...)
	dst = strconv.AppendInt(dst, s.TimestampSecs, 10)
	dst = text(dst, `,"job_name":`, s.JobName)
	dst = appendCPU(append(dst, `,"cpu":`...), &s.CPU)
	dst = appendMemory(append(dst, `,"memory":`...), &s.Memory)
	dst = list(append(dst, `,"network":`...), s.Network, appendNet)
	dst = list(append(dst, `,"disk":`...), s.Disk, appendDisk)
	dst = list(append(dst, `,"gpu":`...), s.GPU, appendGPU)
	dst = str(append(dst, `,"`+VersionKey+`":`...), version)
	return append(dst, '}', '\n')
}

// With adds a member to a line of AppendJSON. The specification does not have it, and its readers
// ignore it. value is JSON.
func With(line []byte, name string, value []byte) []byte {
	line = str(append(line[:len(line)-len("}\n")], ','), name)
	return append(append(append(line, ':'), value...), '}', '\n')
}

func appendCPU(dst []byte, c *rt.CPUMetrics) []byte {
	dst = float(dst, `{"utilization_pct":`, c.UtilizationPct)
	dst = append(dst, `,"per_core_pct":[`...)
	for i, p := range c.PerCorePct {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = float(dst, "", p)
	}
	dst = float(dst, `],"utime_secs":`, c.UtimeSecs)
	dst = float(dst, `,"stime_secs":`, c.StimeSecs)
	dst = uint(dst, `,"process_count":`, c.ProcessCount)
	dst = float(dst, `,"process_cores_used":`, c.ProcessCoresUsed)
	dst = uint(dst, `,"process_child_count":`, c.ProcessChildCount)
	return append(dst, '}')
}

func appendMemory(dst []byte, m *rt.MemoryMetrics) []byte {
	dst = uint(dst, `{"total_mib":`, m.TotalMiB)
	dst = uint(dst, `,"free_mib":`, m.FreeMiB)
	dst = uint(dst, `,"available_mib":`, m.AvailableMiB)
	dst = uint(dst, `,"used_mib":`, m.UsedMiB)
	dst = float(dst, `,"used_pct":`, m.UsedPct)
	dst = uint(dst, `,"buffers_mib":`, m.BuffersMiB)
	dst = uint(dst, `,"cached_mib":`, m.CachedMiB)
	dst = uint(dst, `,"swap_total_mib":`, m.SwapTotalMiB)
	dst = uint(dst, `,"swap_used_mib":`, m.SwapUsedMiB)
	dst = float(dst, `,"swap_used_pct":`, m.SwapUsedPct)
	dst = uint(dst, `,"active_mib":`, m.ActiveMiB)
	dst = uint(dst, `,"inactive_mib":`, m.InactiveMiB)
	return append(dst, '}')
}

func appendNet(dst []byte, n *rt.NetMetrics) []byte {
	dst = str(append(dst, `{"interface":`...), n.Interface)
	dst = text(dst, `,"mac_address":`, n.MACAddress)
	dst = text(dst, `,"driver":`, n.Driver)
	dst = text(dst, `,"operstate":`, n.OperState)
	dst = append(dst, `,"speed_mbps":`...)
	if v, ok := n.SpeedMbps.Get(); ok {
		dst = strconv.AppendInt(dst, v, 10)
	} else {
		dst = append(dst, "null"...)
	}
	dst = uint(dst, `,"mtu":`, n.MTU)
	dst = float(dst, `,"rx_bytes_per_sec":`, n.RxBytesPerSec)
	dst = float(dst, `,"tx_bytes_per_sec":`, n.TxBytesPerSec)
	dst = uint(dst, `,"rx_bytes_total":`, n.RxBytesTotal)
	dst = uint(dst, `,"tx_bytes_total":`, n.TxBytesTotal)
	return append(dst, '}')
}

func appendDisk(dst []byte, d *rt.DiskMetrics) []byte {
	dst = str(append(dst, `{"device":`...), d.Device)
	dst = text(dst, `,"model":`, d.Model)
	dst = text(dst, `,"vendor":`, d.Vendor)
	dst = text(dst, `,"serial":`, d.Serial)
	dst = text(dst, `,"device_type":`, d.DeviceType)
	dst = uint(dst, `,"capacity_bytes":`, d.CapacityBytes)
	dst = list(append(dst, `,"mounts":`...), d.Mounts, appendMount)
	dst = float(dst, `,"read_bytes_per_sec":`, d.ReadBytesPerSec)
	dst = float(dst, `,"write_bytes_per_sec":`, d.WriteBytesPerSec)
	dst = uint(dst, `,"read_bytes_total":`, d.ReadBytesTotal)
	dst = uint(dst, `,"write_bytes_total":`, d.WriteBytesTotal)
	return append(dst, '}')
}

func appendMount(dst []byte, m *rt.MountMetrics) []byte {
	dst = str(append(dst, `{"mount_point":`...), m.MountPoint)
	dst = str(append(dst, `,"filesystem":`...), m.Filesystem)
	dst = uint(dst, `,"total_bytes":`, rt.Some(m.TotalBytes))
	dst = uint(dst, `,"available_bytes":`, rt.Some(m.AvailableBytes))
	dst = uint(dst, `,"used_bytes":`, rt.Some(m.UsedBytes))
	dst = float(dst, `,"used_pct":`, rt.Some(m.UsedPct))
	return append(dst, '}')
}

func appendGPU(dst []byte, g *rt.GPUMetrics) []byte {
	dst = str(append(dst, `{"uuid":`...), g.UUID)
	dst = str(append(dst, `,"name":`...), g.Name)
	dst = str(append(dst, `,"device_type":`...), g.DeviceType)
	dst = str(append(dst, `,"host_id":`...), g.HostID)
	dst = append(dst, `,"detail":{`...)
	for i, k := range slices.Sorted(maps.Keys(g.Detail)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = str(append(str(dst, k), ':'), g.Detail[k])
	}
	dst = float(dst, `},"utilization_pct":`, g.UtilizationPct)
	dst = uint(dst, `,"vram_total_bytes":`, g.VRAMTotalBytes)
	dst = uint(dst, `,"vram_used_bytes":`, g.VRAMUsedBytes)
	dst = float(dst, `,"vram_used_pct":`, g.VRAMUsedPct)
	dst = uint(dst, `,"temperature_celsius":`, g.Temperature)
	dst = float(dst, `,"power_watts":`, g.PowerWatts)
	dst = uint(dst, `,"frequency_mhz":`, g.FrequencyMHz)
	dst = uint(dst, `,"core_count":`, g.CoreCount)
	return append(dst, '}')
}

func list[T any](dst []byte, items []T, one func([]byte, *T) []byte) []byte {
	dst = append(dst, '[')
	for i := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, &items[i])
	}
	return append(dst, ']')
}

func uint(dst []byte, key string, o rt.Opt[uint64]) []byte {
	dst = append(dst, key...)
	if v, ok := o.Get(); ok {
		return strconv.AppendUint(dst, v, 10)
	}
	return append(dst, "null"...)
}

func float(dst []byte, key string, o rt.Opt[float64]) []byte {
	dst = append(dst, key...)
	v, ok := o.Get()
	if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
		return append(dst, "null"...)
	}
	format := byte('f')
	abs := math.Abs(v)
	isPlain := abs >= 1e-6 && abs < 1e21
	if abs != 0 && !isPlain {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, 64)
}

func text(dst []byte, key string, o rt.Opt[string]) []byte {
	dst = append(dst, key...)
	if v, ok := o.Get(); ok {
		return str(dst, v)
	}
	return append(dst, "null"...)
}

// str appends a JSON string. Invalid UTF-8 becomes U+FFFD: names of mount points and interfaces can
// have any bytes.
func str(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// DecodeJSON parses one line of AppendJSON: the sample, without its
// Scalars, and the version. A field that is not in section 6.1 is an error.
func DecodeJSON(line []byte) (rt.Sample, string, error) {
	var doc struct {
		rt.Sample
		Version *string `json:"resource-tracker-version"`
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&doc); err != nil {
		return rt.Sample{}, "", fmt.Errorf("resourcetracker: parse a JSON sample: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return rt.Sample{}, "", fmt.Errorf("resourcetracker: parse a JSON sample: more than one value in the line")
	}
	if doc.Version == nil {
		return rt.Sample{}, "", fmt.Errorf("resourcetracker: parse a JSON sample: no %s in it", VersionKey)
	}
	return doc.Sample, *doc.Version, nil
}
