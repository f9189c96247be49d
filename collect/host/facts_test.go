package host

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

var opts = cmp.AllowUnexported(rt.Opt[uint64]{}, rt.Opt[float64]{})

// env is an environment with only these variables.
func env(vars map[string]string) Lookup {
	return func(name string) (string, bool) {
		v, ok := vars[name]
		return v, ok
	}
}

var (
	noEnv = env(nil)
	full  = rt.Host{
		HostID: "i-1", HostName: "n1", HostIP: "10.0.0.1", HostAllocation: "shared", VCPUs: rt.Some[uint64](8),
		CPUModel: "m", MemoryMiB: rt.Some[uint64](2048), GPUModel: "g", GPUCount: rt.Some[uint64](2),
		GPUVRAMMiB: rt.Some[uint64](4096), StorageGB: rt.Some(500.25),
		CloudVendorID: "aws", CloudAccountID: "1", CloudRegionID: "r", CloudZoneID: "r-a", CloudInstanceType: "t",
	}
	// specified are the fields of sections 8.1 and 8.2, in their order.
	specified = []string{
		"host_id", "host_name", "host_ip", "host_allocation", "host_vcpus", "host_cpu_model", "host_memory_mib",
		"host_gpu_model", "host_gpu_count", "host_gpu_vram_mib", "host_storage_gb",
		"cloud_vendor_id", "cloud_account_id", "cloud_region_id", "cloud_zone_id", "cloud_instance_type",
	}
)

// keys are the fields of a host in the form for a receiver.
func keys(t *testing.T, h rt.Host) []string {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	return names
}

// Every field can be suppressed, by 0 or an empty value, and by itself.
func TestSuppressed(t *testing.T) {
	for _, name := range specified {
		for value, gone := range map[string]bool{"0": true, "": true, "1": false, "00": false, " ": false, "no": false} {
			e := env(map[string]string{"TRACKER_" + strings.ToUpper(name): value, "TRACKER_OTHER": "0"})
			got := keys(t, Drop(full, Suppressed(e)))
			want := slices.DeleteFunc(slices.Clone(specified), func(s string) bool { return gone && s == name })
			slices.Sort(got)
			slices.Sort(want)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("TRACKER_%s=%q (-want +got):\n%s", strings.ToUpper(name), value, d)
			}
		}
	}
	if d := cmp.Diff(full, Drop(full, Suppressed(noEnv)), opts); d != "" {
		t.Errorf("an empty environment changed something:\n%s", d)
	}
}

func TestFacts(t *testing.T) {
	var names []string
	for _, f := range Facts(full) {
		if f.Value == "" || f.Value == "{}" {
			t.Errorf("%s has no text", f.Name)
		}
		names = append(names, f.Name)
	}
	if d := cmp.Diff(specified, names); d != "" {
		t.Errorf("fields (-want +got):\n%s", d)
	}
	if got := Facts(rt.Host{StorageGB: rt.Some(500.25)}); len(got) != 1 || got[0] != (Fact{"host_storage_gb", "500.2"}) {
		t.Errorf("%v", got)
	}
}

func TestAddGPUs(t *testing.T) {
	gpu := func(name string, mib uint64) rt.GPUReading {
		return rt.GPUReading{Name: name, VRAMTotal: rt.Some(mib << 20)}
	}
	for name, tc := range map[string]struct {
		gpus []rt.GPUReading
		want rt.Host
	}{
		"none": {nil, rt.Host{}},
		"two":  {[]rt.GPUReading{gpu("H100", 81559), gpu("A2", 15356)}, rt.Host{GPUModel: "H100", GPUCount: rt.Some[uint64](2), GPUVRAMMiB: rt.Some[uint64](96915)}},
		"one is divided": {[]rt.GPUReading{{UUID: "GPU-1", Name: "A100"}, {UUID: "MIG-1", Name: "A100 MIG 3g.20gb", VRAMTotal: rt.Some[uint64](20096 << 20)},
			{UUID: "MIG-2", Name: "A100 MIG 3g.20gb", VRAMTotal: rt.Some[uint64](20096 << 20)}, gpu("A2", 15356)},
			rt.Host{GPUModel: "A100", GPUCount: rt.Some[uint64](2), GPUVRAMMiB: rt.Some[uint64](2*20096 + 15356)}},
		"one is quiet": {[]rt.GPUReading{gpu("H100", 81559), {Name: "A2"}}, rt.Host{GPUModel: "H100", GPUCount: rt.Some[uint64](2)}},
	} {
		var got rt.Host
		AddGPUs(&got, tc.gpus)
		if d := cmp.Diff(tc.want, got, opts); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestJoin(t *testing.T) {
	local := rt.Host{HostName: "n1", HostAllocation: "shared"}
	cloud := rt.Host{CloudVendorID: "aws", CloudAccountID: "1", CloudRegionID: "r", CloudZoneID: "z", CloudInstanceType: "m7i.metal", HostAllocation: "dedicated"}
	want := cloud
	want.HostName = "n1"
	if got := Join(local, cloud); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Join(local, rt.Host{}); got != local {
		t.Errorf("no cloud changed %+v into %+v", local, got)
	}
}

// The probe runs once, next to its caller, and its panic ends nothing else.
func TestStart(t *testing.T) {
	local := rt.Host{HostName: "n1", HostIP: "10.0.0.1"}
	slow := func(context.Context) rt.Host {
		time.Sleep(2 * time.Second)
		return rt.Host{CloudVendorID: "gcp", CloudAccountID: "lab"}
	}
	cloudOff := map[string]string{}
	for _, name := range specified[11:] {
		cloudOff["TRACKER_"+strings.ToUpper(name)] = "0"
	}
	for name, tc := range map[string]struct {
		vars  map[string]string
		probe func(context.Context) rt.Host
		want  rt.Host
		after time.Duration
	}{
		"all":        {nil, slow, rt.Host{HostName: "n1", HostIP: "10.0.0.1", CloudVendorID: "gcp", CloudAccountID: "lab"}, 2 * time.Second},
		"some":       {map[string]string{"TRACKER_CLOUD_ACCOUNT_ID": "0", "TRACKER_HOST_IP": ""}, slow, rt.Host{HostName: "n1", CloudVendorID: "gcp"}, 2 * time.Second},
		"no cloud":   {cloudOff, slow, local, 0},
		"it panics":  {nil, func(context.Context) rt.Host { panic("a bug") }, local, 0},
		"it is away": {nil, func(context.Context) rt.Host { return rt.Host{} }, local, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				ch := Start(t.Context(), local, env(tc.vars), tc.probe)
				if took := time.Since(start); took != 0 {
					t.Errorf("the caller waited %v", took)
				}
				if got := <-ch; got != tc.want {
					t.Errorf("%+v, want %+v", got, tc.want)
				}
				if took := time.Since(start); took != tc.after {
					t.Errorf("the facts came after %v, want %v", took, tc.after)
				}
			})
		})
	}
}

func TestLocal(t *testing.T) {
	roots := machine(t, "machine-1", "boot-1")
	want := rt.Host{HostID: "machine-1", HostName: "n1"}
	if got := Local(roots, noEnv); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := Local(roots, env(map[string]string{"TRACKER_HOST_NAME": "0"})); got != (rt.Host{HostID: "machine-1"}) {
		t.Errorf("with a suppressed name: %+v", got)
	}
}

// machine makes the /proc and /etc of one machine in one boot.
func machine(t *testing.T, id, boot string) Roots {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"proc/sys/kernel/hostname": "n1", "proc/sys/kernel/random/boot_id": boot, "etc/machine-id": id,
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Roots{Proc: dir + "/proc", Sys: dir + "/sys", Etc: dir + "/etc"}
}

// rt-tracker uses this package, and links no network code.
func TestNoNetwork(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "github.com/resource-tracker/rt/collect/host") {
		t.Fatal("go list shows no dependencies")
	}
	for _, no := range []string{"net", "net/http", "github.com/resource-tracker/rt/collect/cloud"} {
		if slices.Contains(deps, no) {
			t.Errorf("%s is linked", no)
		}
	}
}
