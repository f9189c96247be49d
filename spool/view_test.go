package spool

import (
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// The view shows what Derive says, in units of people: rates over the interval,
// absent where a value is absent or went backwards; a pending job counts from zero.
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
		t.Errorf("the view snapshot shows\n%s, want\n%s", got, want)
	}
}

func TestViewsOfDevices(t *testing.T) {
	m := newMachine(1, 0)
	r := stored(t, Options{}, []*rt.Snapshot{clone(m.next())})
	for query, want := range map[string]string{
		"SELECT seq, name, rx_bytes > 0, gone FROM net_reading":            "1 eth0 1 -\n1 ib0 1 -\n",
		"SELECT seq, name, write_bytes > 0, gone FROM disk_reading":        "1 nvme0n1 1 -\n1 sda 1 -\n",
		"SELECT seq, mount_point, used_bytes > 0, gone FROM mount_reading": "1 / 1 -\n1 /scratch 1 -\n1 /boot 1 -\n",
	} {
		if got := view(t, r, query); got != want {
			t.Errorf("%s gives\n%s, want\n%s", query, got, want)
		}
	}
}

// The columns of the schema are those that the code writes, in its order.
func TestSchemaHasTheColumnsOfTheCode(t *testing.T) {
	r := stored(t, Options{}, []*rt.Snapshot{{}})
	want := map[string]string{"keyframe": keyframeColumns(version)}
	for i, table := range deltaTables {
		want[table] = "seq, " + strings.Join(columnNames(tableColumns[i]), ", ")
	}
	want[deltaTables[inMoving]] += ", reason, job_phase, core_ticks"
	for table, want := range want {
		rows, err := r.db.rows(background, "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		got, want := rows.Columns(), strings.Split(want, ", ")
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s has other columns than the code: -want +got\n%s", table, diff)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
