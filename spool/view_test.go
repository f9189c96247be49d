package spool

import (
	"database/sql/driver"
	"fmt"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// view reads some columns of a view as a text, one line a row.
func view(t *testing.T, r *Reader, query string) string {
	t.Helper()
	var b strings.Builder
	err := r.db.each(query, nil, func(row []driver.Value) error {
		for i, v := range row {
			if i > 0 {
				b.WriteByte(' ')
			}
			if v == nil {
				v = "-"
			}
			fmt.Fprint(&b, v)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The view shows what Derive says, in units of people. A rate is absent where a value is absent or
// went backwards; a pending job counts from zero.
func TestViewSample(t *testing.T) {
	some := rt.Some[uint64]
	const second = 1e9
	at := func(n int64, reason rt.Reason, phase rt.JobPhase) *rt.Snapshot {
		s := &rt.Snapshot{Wall: start.UnixNano() + n*2*second, Boot: 100*second + n*2*second, Reason: reason}
		s.Job.Phase = phase
		return s
	}
	list := []*rt.Snapshot{at(0, rt.ReasonFirst, rt.JobPending), at(1, rt.ReasonAppeared, rt.JobPresent),
		at(2, rt.ReasonTick, rt.JobPresent), at(3, rt.ReasonTick, rt.JobPresent), at(4, rt.ReasonLast, rt.JobGone)}
	for i, s := range list {
		ticks := uint64(i) * 100
		s.Node.CPU.Set(rt.CPUTimes{User: 1000 + ticks, Idle: 5000 + 3*ticks})
		s.Node.CPUs = some(4)
		s.Node.NetRxBytes = some(1 << 40)
		s.Node.MemTotal, s.Node.MemFree, s.Node.Buffers, s.Node.Cached, s.Node.SReclaimable = some(8<<30), some(1<<30), some(1<<20), some(2<<30), some(0)
	}
	list[1].Job.CPUUsage, list[1].Job.IOReadBytes = some(3_000_000), some(4096)
	list[1].Job.MemCurrent, list[1].Job.MemLimit, list[1].Job.Pids = some(3<<19), some(rt.Unlimited), some(7)
	list[2].Job.CPUUsage, list[2].Job.MemLimit = some(7_000_000), some(1<<30)
	list[2].Node.NetRxBytes = some(1<<40 + 2000)
	list[3].Job.CPUUsage = some(6_000_000) // went backwards
	list[3].Node.NetRxBytes = rt.None[uint64]()
	r := stored(t, Options{}, list)
	got := view(t, r, `SELECT seq, time, elapsed_s, seconds, reason, job_phase, job_cores, job_mem_mib, job_mem_limit_mib,
		job_pids, job_read_bytes_per_s, node_cores, node_mem_used_mib, net_rx_bytes_per_s FROM sample`)
	want := `1 2026-03-01T08:00:00.123Z 0 - first pending - - - - - - 5119 -
2 2026-03-01T08:00:02.123Z 2 2 appeared present 1.5 1.5 none 7 2048 1 5119 0
3 2026-03-01T08:00:04.123Z 4 2 tick present 2 - 1024 - - 1 5119 1000
4 2026-03-01T08:00:06.123Z 6 2 tick present - - - - - 1 5119 -
5 2026-03-01T08:00:08.123Z 8 2 last gone - - - - - 1 5119 -
`
	if got != want {
		t.Errorf("the view sample shows\n%s, want\n%s", got, want)
	}
	got = view(t, r, "SELECT seq, boot_us, wall_us - "+fmt.Sprint(start.UnixMicro())+", job_cpu_usage_us, job_mem_limit_kib, node_mem_free_kib FROM snapshot")
	want = `1 100000000 0 - - 1048576
2 102000000 2000000 3000000 -1 1048576
3 104000000 4000000 7000000 1048576 1048576
4 106000000 6000000 6000000 - 1048576
5 108000000 8000000 - - 1048576
`
	if got != want {
		t.Errorf("the table snapshot has\n%s, want\n%s", got, want)
	}
}

func TestViewsOfDevices(t *testing.T) {
	m := newMachine(1, 0)
	r := stored(t, Options{}, []*rt.Snapshot{clone(m.next())})
	for query, want := range map[string]string{
		"SELECT seq, name, rx_bytes > 0 FROM net_reading":            "1 eth0 1\n1 ib0 1\n",
		"SELECT seq, name, write_bytes > 0 FROM disk_reading":        "1 nvme0n1 1\n1 sda 1\n",
		"SELECT seq, mount_point, used_bytes > 0 FROM mount_reading": "1 / 1\n1 /scratch 1\n1 /boot 1\n",
	} {
		if got := view(t, r, query); got != want {
			t.Errorf("%s gives\n%s, want\n%s", query, got, want)
		}
	}
}

// A figure that does not change is in each row, also after it was not read for a while.
func TestViewCarriesWhatStoodStill(t *testing.T) {
	some := rt.Some[uint64]
	var list []*rt.Snapshot
	for i := range int64(6) {
		s := &rt.Snapshot{Wall: start.UnixNano() + i*1e9, Boot: 1e12 + i*1e9}
		s.Job.Phase = rt.JobPresent
		s.Job.MemLimit, s.Job.Pids = some(rt.Unlimited), some(3)
		s.Job.CPUStallSome, s.Job.ProcReadBytes = some(uint64(i)*250_000), some(uint64(i)*1000)
		s.GPU.Usage = rt.Some(0.25)
		list = append(list, s)
	}
	list[2].Job.Pids.Clear()
	list[3].Job.Pids, list[3].GPU.Usage = some(5), rt.None[float64]()
	list[4].Job.Pids, list[4].GPU.Usage = some(5), rt.None[float64]()
	list[5].Node.ReadBoot, list[5].Job.Pids = 1e12, some(5)
	r := stored(t, Options{}, list)
	got := view(t, r, "SELECT seq, job_mem_limit_kib, job_pids, job_gpu_usage, node_read_boot_us, node_cpus FROM snapshot")
	want := `1 -1 3 0.25 - -
2 -1 3 0.25 - -
3 -1 - 0.25 - -
4 -1 5 - - -
5 -1 5 - - -
6 -1 5 0.25 1000000000 -
`
	if got != want {
		t.Errorf("the table snapshot has\n%s, want\n%s", got, want)
	}
	if got, want := view(t, r, "SELECT job_cpu_stall_pct, job_read_bytes_per_s, job_gpus_used FROM sample LIMIT 2"), "- - 0.25\n25 1000 0.25\n"; got != want {
		t.Errorf("the view sample shows %q, want %q", got, want)
	}
}

func TestViewsOfWhatTheJobIs(t *testing.T) {
	m := newMachine(1, 0)
	m.withJob(2)
	m.snap.GPUProcesses = []rt.GPUProcessReading{{UUID: "GPU-a", PID: 7, Utilization: rt.Some(12.5)}}
	m.snap.RemoteFS = []rt.RemoteFSReading{{Kind: "nfs", Source: "srv:/home", Ops: rt.Some[uint64](3)}}
	m.snap.Perf = []rt.PerfReading{{Group: "core", Event: "cycles", Value: rt.Some[uint64](9)}}
	first := clone(m.next())
	second := clone(m.next())
	second.Steps = second.Steps[:3]
	second.Steps[2].Ended = true
	r := stored(t, Options{}, []*rt.Snapshot{first, second, {Boot: second.Boot + 1e9, Wall: second.Wall}})
	for query, want := range map[string]string{
		"SELECT seq, step, task, ended, mem_peak_kib FROM step_reading WHERE task > 0":         "1 0 1 - 1048576\n",
		"SELECT seq, ended FROM step_reading WHERE task = 0":                                   "1 -\n2 1\n",
		"SELECT step, task, mem_peak_mib, pids_max, cpu_s > 0 FROM step_total":                 "extern - 1024 1 0\n0 - 1024 1 1\n0 0 1024 1 1\n0 1 1024 1 1\n",
		"SELECT comm, step, task, cpu_s > 0, threads_max FROM process_total":                   "solver 0 0 1 2\nsolver 0 1 1 2\n",
		"SELECT source, domain, kind, energy_j > 0 FROM energy_total":                          "powercap package-0 package 1\npowercap package-1 package 1\n",
		"SELECT seq, gpu_uuid, pid, vram_used_bytes, utilization_pct FROM gpu_process_reading": "1 GPU-a 7 - 12.5\n2 GPU-a 7 - 12.5\n",
		"SELECT seq, device, rx_packets > 0 FROM fabric_reading":                               "1 mlx5_0 1\n2 mlx5_0 1\n",
		"SELECT seq, kind, source, ops FROM remote_fs_reading":                                 "1 nfs srv:/home 3\n2 nfs srv:/home 3\n",
		"SELECT seq, event, cpu, value FROM perf_reading":                                      "1 cycles 0 9\n2 cycles 0 9\n",
	} {
		if got := view(t, r, query); got != want {
			t.Errorf("%s gives\n%s, want\n%s", query, got, want)
		}
	}
}
