package resourcetracker

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// liveFields are the fields of the JSON of resource-tracker 0.1.14, with objects in lists as
// "list.field". actual_interval_ms is WithInterval's.
const liveFields = `cpu cpu.cgroup_usage_secs cpu.cgroup_utilization_pct cpu.per_core_pct cpu.process_child_count cpu.process_cores_used
cpu.process_count cpu.process_disk_read_bytes cpu.process_disk_write_bytes cpu.process_gpu_usage cpu.process_gpu_utilized
cpu.process_gpu_vram_mib cpu.process_pss_mib cpu.process_rss_mib cpu.process_stime_secs cpu.process_utime_secs cpu.stime_secs
cpu.utilization_pct cpu.utime_secs disk disk.capacity_bytes disk.device disk.device_type disk.model disk.mounts
disk.mounts.available_bytes disk.mounts.filesystem disk.mounts.mount_point disk.mounts.total_bytes disk.mounts.used_bytes
disk.mounts.used_pct disk.read_bytes_per_sec disk.read_bytes_total disk.serial disk.vendor disk.write_bytes_per_sec
disk.write_bytes_total gpu gpu.core_count gpu.detail gpu.device_type gpu.frequency_mhz gpu.host_id gpu.name gpu.power_watts
gpu.temperature_celsius gpu.utilization_pct gpu.uuid gpu.vram_total_bytes gpu.vram_used_bytes gpu.vram_used_pct job_name memory
memory.active_mib memory.available_mib memory.buffers_mib memory.cached_mib memory.free_mib memory.inactive_mib
memory.swap_total_mib memory.swap_used_mib memory.swap_used_pct memory.total_mib memory.used_mib memory.used_pct network
network.driver network.interface network.mac_address network.mtu network.operstate network.rx_bytes_per_sec
network.rx_bytes_total network.speed_mbps network.tx_bytes_per_sec network.tx_bytes_total resource-tracker-version
timestamp_secs tracked_pid`

func collectFields(prefix string, v any, into map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, element := range v {
			collectFields(prefix, element, into)
		}
	case map[string]any:
		for name, member := range v {
			into[prefix+name] = true
			if name != "detail" {
				collectFields(prefix+name+".", member, into)
			}
		}
	}
}

func TestLiveJSONHasAllFields(t *testing.T) {
	s := fullSample()
	p := LiveProcess{
		ProcessScalars: rt.ProcessScalars{
			Children: u(3), UserMillis: u(1500), SystemMillis: u(20), CPUUsage: f(0.5), Memory: u(5<<20 + 9), DiskReadBytes: u(8), DiskWriteBytes: u(0),
			GPU: rt.GPUUse{Usage: f(0.25), VRAMUsed: u(3 << 19), Utilized: u(1)},
		},
		PID: u(42), RSS: u(7 << 20), CgroupCores: f(0.75), CgroupSeconds: f(1.5),
	}
	line := AppendLiveJSON(nil, &s, &p, "0.2.0")
	var doc map[string]any
	if err := json.Unmarshal(line, &doc); err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	got := map[string]bool{}
	collectFields("", doc, got)
	if got, want := slices.Sorted(maps.Keys(got)), strings.Fields(liveFields); !slices.Equal(got, want) {
		t.Errorf("fields\n%q\nwant\n%q", got, want)
	}
	cpu := doc["cpu"].(map[string]any)
	for name, want := range map[string]any{
		"cgroup_utilization_pct": 0.75, "cgroup_usage_secs": 1.5, "process_child_count": 3.0, "process_cores_used": 0.5,
		"process_utime_secs": 1.5, "process_stime_secs": 0.02, "process_pss_mib": 5.0, "process_rss_mib": 7.0, "process_disk_read_bytes": 8.0,
		"process_disk_write_bytes": 0.0, "process_gpu_usage": 0.25, "process_gpu_vram_mib": 1.5, "process_gpu_utilized": 1.0,
	} {
		if cpu[name] != want {
			t.Errorf("%s is %v, want %v", name, cpu[name], want)
		}
	}
	if doc["tracked_pid"] != 42.0 {
		t.Errorf("tracked_pid is %v", doc["tracked_pid"])
	}
	line = AppendLiveJSON(nil, &rt.Sample{}, &LiveProcess{}, "0.2.0")
	if err := json.Unmarshal(line, &doc); err != nil || doc["cpu"].(map[string]any)["process_pss_mib"] != nil || doc["tracked_pid"] != nil {
		t.Errorf("nothing read: %v, %s", err, line)
	}
}
