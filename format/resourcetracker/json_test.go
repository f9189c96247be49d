package resourcetracker

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/samples"
)

func fullSample() rt.Sample {
	str := rt.Some[string]
	return rt.Sample{
		TimestampSecs: 1743300000, JobName: str(`a "job"` + "\n\t\\"),
		CPU: rt.CPUMetrics{
			UtilizationPct: f(1.5), PerCorePct: []rt.Opt[float64]{f(100), {}, f(0.1)}, UtimeSecs: f(1.25), StimeSecs: f(0),
			ProcessCount: u(300), ProcessCoresUsed: f(1e-7), ProcessChildCount: u(2),
		},
		Memory: rt.MemoryMetrics{
			TotalMiB: u(1), FreeMiB: u(2), AvailableMiB: u(3), UsedMiB: u(4), UsedPct: f(5), BuffersMiB: u(6), CachedMiB: u(7),
			SwapTotalMiB: u(8), SwapUsedMiB: u(9), SwapUsedPct: f(10), ActiveMiB: u(11), InactiveMiB: u(12),
		},
		Network: []rt.NetMetrics{
			{Interface: "eth0", MACAddress: str("00:11:22:33:44:55"), Driver: str("igc"), OperState: str("up"), SpeedMbps: rt.Some[int64](-1),
				MTU: u(1500), RxBytesPerSec: f(1e21), TxBytesPerSec: f(2), RxBytesTotal: u(math.MaxUint64), TxBytesTotal: u(4)},
			{Interface: "ib0"},
		},
		Disk: []rt.DiskMetrics{
			{Device: "sda", Model: str("M"), Vendor: str("V"), Serial: str("S"), DeviceType: str("ssd"), CapacityBytes: u(5),
				Mounts:          []rt.MountMetrics{{MountPoint: "/é", Filesystem: "ext4", TotalBytes: 10, AvailableBytes: 4, UsedBytes: 5, UsedPct: 50}},
				ReadBytesPerSec: f(1), WriteBytesPerSec: f(2), ReadBytesTotal: u(3), WriteBytesTotal: u(4)},
			{Device: "sdb", Mounts: []rt.MountMetrics{}},
		},
		GPU: []rt.GPUMetrics{{UUID: "GPU-1", Name: "N", DeviceType: "GPU", HostID: "0", Detail: map[string]string{"pci": "0:1", "driver": "5"},
			UtilizationPct: f(1), VRAMTotalBytes: u(2), VRAMUsedBytes: u(3), VRAMUsedPct: f(4), Temperature: u(5), PowerWatts: f(6), FrequencyMHz: u(7), CoreCount: u(8)}},
	}
}

// nothingRead is the sample of an interval in which no source could be read.
func nothingRead() rt.Sample { return rt.Derive(nil, &rt.Snapshot{Wall: 1743300000e9}, rt.ScopeNode) }

func TestJSONIsOneLine(t *testing.T) {
	for name, s := range map[string]rt.Sample{"full": fullSample(), "nothing read": nothingRead()} {
		line := AppendJSON(nil, &s, "0.1.0")
		if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
			t.Fatalf("%s: not one line: %q", name, line)
		}
		var doc map[string]any
		if err := json.Unmarshal(line, &doc); err != nil {
			t.Fatalf("%s: %v in %s", name, err, line)
		}
		if ts, ok := doc["timestamp_secs"].(float64); !ok || ts <= 0 {
			t.Errorf("%s: timestamp_secs = %v", name, doc["timestamp_secs"])
		}
		if doc["resource-tracker-version"] != "0.1.0" {
			t.Errorf("%s: version %v", name, doc["resource-tracker-version"])
		}
		for _, key := range []string{"network", "disk", "gpu"} {
			if _, ok := doc[key].([]any); !ok {
				t.Errorf("%s: %s is %v, want a list", name, key, doc[key])
			}
		}
	}
}

// The names are the structs' tags, which are section 6.1. encoding/json and AppendJSON write the same.
func TestJSONFieldsAreThoseOfTheSample(t *testing.T) {
	s := fullSample()
	want, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var a, b map[string]any
	if err := json.Unmarshal(want, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(AppendJSON(nil, &s, "v"), &b); err != nil {
		t.Fatal(err)
	}
	delete(b, VersionKey)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("got  %v\nwant %v", b, a)
	}
	back, version, err := samples.DecodeJSON(AppendJSON(nil, &s, "v"))
	if err != nil || version != "v" || !reflect.DeepEqual(back, s) {
		t.Errorf("decoded %+v, %q, %v", back, version, err)
	}
}

func TestJSONOrder(t *testing.T) {
	s := nothingRead()
	got := string(AppendJSON(nil, &s, "0.1.0"))
	last := -1
	for _, key := range []string{`{"timestamp_secs":1743300000,"job_name":null,"cpu":{`, `"memory":{`, `"network":[`, `"disk":[`, `"gpu":[],"resource-tracker-version":"0.1.0"}` + "\n"} {
		i := strings.Index(got, key)
		if i <= last {
			t.Errorf("%s is missing or out of order in %s", key, got)
		}
		last = i
	}
}

func TestJSONNeverHoldsWhatJSONCannot(t *testing.T) {
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		s := fullSample()
		s.CPU.UtilizationPct, s.Network[0].RxBytesPerSec = f(v), f(v)
		if line := AppendJSON(nil, &s, ""); !json.Valid(line) || !bytes.Contains(line, []byte(`"utilization_pct":null`)) {
			t.Errorf("%v: %s", v, line)
		}
	}
	for _, name := range []string{"\x00\x1f\x7f", "\xff\xfe", "a\"b\\c", "\u2028</script>", "日本"} {
		s := rt.Sample{JobName: rt.Some(name), GPU: []rt.GPUMetrics{{Detail: map[string]string{name: name}}}}
		line := AppendJSON(nil, &s, name)
		var doc struct {
			Name string `json:"job_name"`
		}
		if err := json.Unmarshal(line, &doc); err != nil || doc.Name != strings.ToValidUTF8(name, "\ufffd") && name != "\xff\xfe" {
			t.Errorf("%q: %v, %q in %s", name, err, doc.Name, line)
		}
	}
}

func TestJSONIsDeterministic(t *testing.T) {
	s := fullSample()
	s.GPU[0].Detail = map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
	first := string(AppendJSON(nil, &s, "v"))
	for range 50 {
		if again := string(AppendJSON(nil, &s, "v")); again != first {
			t.Fatalf("%s\n%s", first, again)
		}
	}
}

func TestDecodeJSONIsStrict(t *testing.T) {
	for text, want := range map[string]string{
		``:                       "EOF",
		`{"timestamp_secs":1}`:   "no resource-tracker-version",
		`{"timestamp_secs":"x"}`: "cannot unmarshal",
		`{"timestamp_secs":1,"resource-tracker-version":"1"} {}`: "more than one value",
		`{"cpus":{}}`:                 "unknown field",
		`{"resource-tracker-version"`: "unexpected EOF",
	} {
		if _, _, err := samples.DecodeJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func FuzzJSON(f *testing.F) {
	f.Add("eth0", 1.5, uint64(7))
	f.Add("\xff\"\\\n", math.NaN(), uint64(math.MaxUint64))
	f.Add("", math.Inf(-1), uint64(0))
	f.Fuzz(func(t *testing.T, name string, x float64, n uint64) {
		s := rt.Sample{JobName: rt.Some(name), Network: []rt.NetMetrics{{Interface: name, RxBytesPerSec: rt.Some(x), RxBytesTotal: u(n)}}}
		line := AppendJSON(nil, &s, name)
		back, _, err := samples.DecodeJSON(line)
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if got, ok := back.Network[0].RxBytesPerSec.Get(); ok && got != x || back.Network[0].RxBytesTotal != u(n) {
			t.Errorf("%v and %d came back as %s", x, n, line)
		}
	})
}
