package resourcetracker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/samples"
)

func u(v uint64) rt.Opt[uint64]   { return rt.Some(v) }
func f(v float64) rt.Opt[float64] { return rt.Some(v) }

func fullScalars() rt.Scalars {
	return rt.Scalars{
		Seconds: 10, Processes: u(321), UserMillis: u(12345), SystemMillis: u(7), CPUUsage: f(1.23456789),
		MemFree: u(1000), MemUsed: u(2000), MemBuffers: u(30), MemCached: u(400), MemActive: u(50), MemInactive: u(60),
		DiskReadBytes: u(4096), DiskWriteBytes: u(0), SpaceTotal: u(1_000_204_886_016), SpaceAvailable: u(400_000_000_499),
		NetRecvBytes: u(17), NetSentBytes: u(18), GPUUsage: f(0.5), GPUVRAMUsed: u(1<<30 + 1<<19), GPUUtilized: u(1),
	}
}

const fullRow = "1743300000,321,12.345,0.007,1.2346,1000,2000,30,400,50,60,4096,0,1000.204886,600.204886,400.000000,17,18,0.5000,1024.5000,1\n"

// The names and their order are section 7.2, character for character.
func TestHeaders(t *testing.T) {
	want := "timestamp,processes,utime,stime,cpu_usage,memory_free,memory_used,memory_buffers,memory_cached,memory_active,memory_inactive,disk_read_bytes,disk_write_bytes,disk_space_total_gb,disk_space_used_gb,disk_space_free_gb,net_recv_bytes,net_sent_bytes,gpu_usage,gpu_vram,gpu_utilized\n"
	if CSVHeader != want {
		t.Errorf("header %q", CSVHeader)
	}
	want = "timestamp,system_processes,system_utime,system_stime,system_cpu_usage,system_memory_free_mib,system_memory_used_mib,system_memory_buffers_mib,system_memory_cached_mib,system_memory_active_mib,system_memory_inactive_mib,system_disk_read_bytes,system_disk_write_bytes,system_disk_space_total_gb,system_disk_space_used_gb,system_disk_space_free_gb,system_net_recv_bytes,system_net_sent_bytes,system_gpu_usage,system_gpu_vram_mib,system_gpu_utilized,process_pid,process_children,process_utime,process_stime,process_cpu_usage,process_memory_mib,process_disk_read_bytes,process_disk_write_bytes,process_gpu_usage,process_gpu_vram_mib,process_gpu_utilized\n"
	if LiveCSVHeader != want {
		t.Errorf("live header %q", LiveCSVHeader)
	}
}

func TestColumns(t *testing.T) {
	full, empty := fullScalars(), rt.Scalars{}
	tests := []struct{ name, got, want string }{
		{"full", string(AppendCSV(nil, 1743300000, &full)), fullRow},
		{"a job", string(AppendCSV(nil, 1, &rt.Scalars{MemUsed: u(5), MemCached: u(4)})), "1,,,,,,5,0,4" + strings.Repeat(",", 12) + "NaN\n"},
		{"nothing read", string(AppendCSV(nil, 1, &empty)), "1" + strings.Repeat(",", 20) + "NaN\n"},
		{"live", string(AppendLiveCSV(nil, 1743300000, &full, u(42), &rt.ProcessScalars{
			Children: u(3), UserMillis: u(1500), SystemMillis: u(20), CPUUsage: f(0.152), Memory: u(5<<20 + 9), DiskReadBytes: u(8),
			GPU: rt.GPUUse{Usage: f(0.25), VRAMUsed: u(3 << 19), Utilized: u(1)},
		})), strings.TrimSuffix(fullRow, "\n") + ",42,3,1.500,0.020,0.1520,5,8,,0.2500,1.5000,1\n"},
		{"live, no GPU", string(AppendLiveCSV(nil, 1, &rt.Scalars{GPUs: u(0)}, rt.None[uint64](), &rt.ProcessScalars{})), "1" + strings.Repeat(",", 18) + "0.0000,0.0000,0" + strings.Repeat(",", 11) + "\n"},
		{"live, nothing read", string(AppendLiveCSV(nil, 1, &empty, rt.None[uint64](), &rt.ProcessScalars{})), "1" + strings.Repeat(",", 31) + "\n"},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s:\ngot  %swant %s", tt.name, tt.got, tt.want)
		}
		if strings.ContainsAny(tt.got, `"' `) {
			t.Errorf("%s: a quoted field in %s", tt.name, tt.got)
		}
	}
	if n := strings.Count(LiveCSVHeader, ",") + 1; n != 32 {
		t.Errorf("live header has %d columns", n)
	}
}

func TestCPUUsageHasFourDecimals(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want string
	}{
		{0, "0.0000"}, {4.6, "4.6000"}, {15.99996, "16.0000"}, {0.00004, "0.0000"}, {-0.00001, "0.0000"},
		{math.NaN(), ""}, {math.Inf(1), ""}, {math.Inf(-1), ""},
	} {
		s := rt.Scalars{CPUUsage: f(tt.v)}
		got := strings.Split(string(AppendCSV(nil, 1, &s)), ",")[4]
		if got != tt.want {
			t.Errorf("cpu_usage of %v = %q, want %q", tt.v, got, tt.want)
		}
	}
}

// Used is total - free on the digits as printed, and the printed digits are right.
func TestUsedSpaceIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		total := rng.Uint64N(1 << (10 + rng.IntN(44)))
		s := rt.Scalars{SpaceTotal: u(total), SpaceAvailable: u(rng.Uint64N(total + 1))}
		col := strings.Split(string(AppendCSV(nil, 1, &s)), ",")[13:16]
		var n [3]int64
		for i, c := range col {
			point := strings.IndexByte(c, '.')
			if len(c)-point-1 != 6 {
				t.Fatalf("%q has not 6 decimals", c)
			}
			v, err := strconv.ParseInt(c[:point]+c[point+1:], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n[i] = v
		}
		if n[1] != n[0]-n[2] {
			t.Fatalf("used %s is not %s - %s", col[1], col[0], col[2])
		}
		if want := fmt.Sprintf("%d", (total+500)/1000); fmt.Sprint(n[0]) != want {
			t.Fatalf("total of %d bytes is printed %s", total, col[0])
		}
	}
}

func TestSpaceOddities(t *testing.T) {
	tests := []struct {
		total, free rt.Opt[uint64]
		want        string
	}{
		{u(math.MaxUint64), u(0), "18446744073.709552,18446744073.709552,0.000000"},
		{u(1000), u(3_000_000), "0.000001,-0.002999,0.003000"},
		{u(5000), rt.None[uint64](), "0.000005,,"},
		{rt.None[uint64](), u(5000), ",,0.000005"},
	}
	for _, tt := range tests {
		s := rt.Scalars{SpaceTotal: tt.total, SpaceAvailable: tt.free}
		row := string(AppendCSV(nil, 1, &s))
		if got := strings.Join(strings.Split(row, ",")[13:16], ","); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		if _, rows, err := samples.ReadCSV(strings.NewReader(CSVHeader + row)); err != nil {
			t.Error(err)
		} else {
			for _, err := range rows {
				if err != nil && tt.total.Or(0) != math.MaxUint64 {
					t.Error(err)
				}
			}
		}
	}
}

func TestGPUMemoryIsRounded(t *testing.T) {
	for _, tt := range []struct {
		bytes uint64
		want  string
	}{
		{0, "0.0000"}, {1, "0.0000"}, {53, "0.0001"}, {1<<20 - 1, "1.0000"}, {1 << 40, "1048576.0000"},
		{math.MaxUint64, "17592186044416.0000"},
	} {
		s := rt.Scalars{GPUVRAMUsed: u(tt.bytes)}
		if got := strings.Split(string(AppendCSV(nil, 1, &s)), ",")[19]; got != tt.want {
			t.Errorf("gpu_vram of %d = %s, want %s", tt.bytes, got, tt.want)
		}
	}
}

func TestSameBytesNoAllocation(t *testing.T) {
	s := fullScalars()
	p := rt.ProcessScalars{Children: u(1), CPUUsage: f(1)}
	buf := make([]byte, 0, 1024)
	if a, b := string(AppendCSV(nil, 5, &s)), string(AppendCSV(buf, 5, &s)); a != b {
		t.Errorf("%q and %q", a, b)
	}
	n := testing.AllocsPerRun(100, func() {
		buf = AppendCSV(buf[:0], 5, &s)
		buf = AppendLiveCSV(buf, 5, &s, u(1), &p)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendCSV(b *testing.B) {
	s := fullScalars()
	buf := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendCSV(buf[:0], 1743300000, &s)
	}
	b.SetBytes(int64(len(buf)))
}

// A node without a GPU uses none. GPUs that were not read have no figure.
func TestRowWithoutGPUs(t *testing.T) {
	for _, tc := range []struct {
		gpus rt.Opt[uint64]
		want string
	}{
		{rt.Some[uint64](0), ",0.0000,0.0000,0\n"},
		{rt.Some[uint64](1), ",,,NaN\n"},
		{rt.None[uint64](), ",,,NaN\n"},
	} {
		row := string(AppendCSV(nil, 1, &rt.Scalars{GPUs: tc.gpus}))
		if !strings.HasSuffix(row, tc.want) {
			t.Errorf("%v GPUs: %q, want %q at its end", tc.gpus, row, tc.want)
		}
	}
}
