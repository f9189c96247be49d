package spool

import (
	"database/sql/driver"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/resource-tracker/rt"
)

// withGaps is a run of a job that is pending first. Now and then a figure is absent.
func withGaps(rng *rand.Rand, n int) []*rt.Snapshot {
	var list []*rt.Snapshot
	var total [16]uint64
	var ticks rt.CPUTimes
	pending := rng.IntN(3)
	for i := range n {
		s := &rt.Snapshot{Wall: start.UnixNano(), Boot: 1e12}
		if i > 0 {
			passed := 1e6 * (1 + rng.Int64N(20_000))
			s.Wall, s.Boot = list[i-1].Wall+passed, list[i-1].Boot+passed
		}
		s.Job.Phase = rt.JobPresent
		if i < pending {
			s.Job.Phase = rt.JobPending
		}
		for k := range total {
			total[k] += rng.Uint64N(2_000_000)
		}
		if rng.IntN(20) == 0 {
			total[0] /= 2 // a counter that falls
		}
		ticks.User, ticks.System, ticks.Idle = ticks.User+rng.Uint64N(99), ticks.System+rng.Uint64N(99), ticks.Idle+rng.Uint64N(99)
		figures := [...]*rt.Opt[uint64]{
			&s.Node.NetRxBytes, &s.Node.NetTxBytes, &s.Node.DiskReadBytes, &s.Node.DiskWriteBytes, &s.Job.ProcReadBytes, &s.Job.ProcWriteBytes,
			&s.Job.CPUUsage, &s.Job.CPUUser, &s.Job.CPUSystem, &s.Job.IOReadBytes, &s.Job.IOWriteBytes,
		}
		for k, f := range figures {
			isJobs := k >= 6
			if rng.IntN(3) > 0 && (!isJobs || i >= pending) {
				f.Set(total[k])
			}
		}
		if rng.IntN(3) > 0 {
			s.Tree.CPUUserTicks, s.Tree.CPUSystemTicks = rt.Some(total[12]/10_000), rt.Some(total[13]/10_000)
		}
		if rng.IntN(3) > 0 {
			s.Node.CPU.Set(ticks)
		}
		s.Node.CPUs = rt.Some[uint64](8)
		list = append(list, s)
	}
	return list
}

// The view sample and the exports are the same function of the same rows, through gaps, late
// controllers and counters that fall.
func TestViewSampleIsTheExport(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for run := range sized(40, 10) {
		list := withGaps(rng, 60)
		r := stored(t, Options{}, list)
		var got [][]driver.Value
		err := r.db.each(`SELECT job_cores, job_user_s, job_system_s, job_read_bytes_per_s, job_write_bytes_per_s, tree_cores, node_cores,
			net_rx_bytes_per_s, net_tx_bytes_per_s, disk_read_bytes_per_s, disk_write_bytes_per_s FROM sample`, nil,
			func(row []driver.Value) error { got = append(got, append([]driver.Value(nil), row...)); return nil })
		if err != nil || len(got) != len(list) {
			t.Fatal(len(got), err)
		}
		var w rt.Walk
		for i, cur := range list {
			prev := w.Step(cur)
			if prev == nil {
				continue
			}
			job, node := rt.DeriveScalars(prev, cur, rt.ScopeJob), rt.DeriveScalars(prev, cur, rt.ScopeNode)
			tree := rt.Derive(prev, cur, rt.ScopeJob).CPU.ProcessCoresUsed
			for k, want := range [...]rt.Opt[float64]{
				rounded(job.CPUUsage, 100), millis(job.UserMillis), millis(job.SystemMillis), perSecond(job.DiskReadBytes, job.Seconds),
				perSecond(job.DiskWriteBytes, job.Seconds), rounded(tree, 100), rounded(node.CPUUsage, 100), perSecond(node.NetRecvBytes, job.Seconds),
				perSecond(node.NetSentBytes, job.Seconds), perSecond(node.DiskReadBytes, job.Seconds), perSecond(node.DiskWriteBytes, job.Seconds),
			} {
				v, isRead := got[i][k].(float64)
				if isRead != want.Valid() || math.Abs(v-want.Or(0)) > 0.0101 && math.Abs(v-want.Or(0)) > 1e-9*v {
					t.Fatalf("run %d, row %d, figure %d: %v in the view, %v in an export", run, i, k, got[i][k], fmt.Sprint(want))
				}
			}
		}
	}
}

func rounded(v rt.Opt[float64], unit float64) rt.Opt[float64] {
	if x, ok := v.Get(); ok {
		return rt.Some(math.Round(x*unit) / unit)
	}
	return v
}

func millis(v rt.Opt[uint64]) rt.Opt[float64] {
	if n, ok := v.Get(); ok {
		return rt.Some(float64(n) / 1000)
	}
	return rt.None[float64]()
}

func perSecond(v rt.Opt[uint64], secs float64) rt.Opt[float64] {
	if n, ok := v.Get(); ok {
		return rt.Some(math.Round(float64(n) / secs))
	}
	return rt.None[float64]()
}
