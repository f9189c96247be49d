package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// exchange measures FTDC: the speed of encoding and decoding, and the size of a run's file
// compared with the other formats.
func exchange(bin, dir string) ([]row, error) {
	speed, err := goBench("./format/ftdc", "^Benchmark(Encode|Decode)$")
	if err != nil {
		return nil, err
	}
	const budget = 20e6
	rows := []row{
		{what: "FTDC encoder, all values change", figure: speed["Encode/all"]["values/s"], unit: "/s", budget: budget, more: true},
		{what: "  a tenth of them", figure: speed["Encode/tenth"]["values/s"], unit: "/s", budget: budget, more: true},
		{what: "  allocations per datum", figure: speed["Encode/all"]["allocs/op"], unit: "allocs"},
		{what: "FTDC decoder, all values change", figure: speed["Decode/all"]["values/s"], unit: "/s", budget: budget, more: true},
		{what: "  a tenth of them", figure: speed["Decode/tenth"]["values/s"], unit: "/s", budget: budget, more: true},
		{what: "  allocations per datum", figure: speed["Decode/all"]["allocs/op"], unit: "allocs"},
	}
	path, err := hour(dir)
	if err != nil {
		return nil, err
	}
	for _, format := range []struct{ name, what string }{
		{"csv", "an hour of a job at 1 Hz as CSV, its 21 columns"}, {"ftdc", "  as FTDC, all its figures exactly"},
	} {
		out, err := exec.Command(filepath.Join(bin, "rt-spool"), "--config", "/dev/null", "export", "--format", format.name, path).Output()
		if err != nil {
			return nil, fmt.Errorf("rt-spool export --format %s: %w", format.name, err)
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(out); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		rows = append(rows, row{what: format.what, figure: float64(len(out)) / 1024, unit: "KiB"},
			row{what: "  with gzip", figure: float64(packed.Len()) / 1024, unit: "KiB"})
	}
	return rows, nil
}

// hour spools a job of one hour that computes, reads and writes unevenly.
func hour(dir string) (string, error) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := rt.Run{Identity: rt.Identity{JobID: rt.Some[uint64](1), Node: "n1", BootID: "bench", Start: start}, Ending: rt.Ending{State: rt.StateRunning}}
	w, err := spool.Create(dir, run, rt.Host{}, spool.Options{CommitRows: 1000})
	if err != nil {
		return "", err
	}
	r := rand.New(rand.NewPCG(1, 2))
	var cpu, system, read, rx uint64
	used := uint64(4 << 30)
	for i := range int64(3600) {
		cpu += 3_500_000 + r.Uint64N(500_000)
		system += r.Uint64N(100_000)
		read += r.Uint64N(2) * r.Uint64N(64<<20)
		rx += r.Uint64N(1 << 20)
		used += r.Uint64N(4<<20) &^ 4095
		s := rt.Snapshot{
			Seq: i + 1, Wall: start.UnixNano() + i*1e9, Boot: 1e15 + i*1e9,
			Node: rt.NodeReading{
				CPU:  rt.Some(rt.CPUTimes{User: cpu / 10_000, System: system / 10_000, Idle: uint64(i) * 6000}),
				CPUs: rt.Some[uint64](64), Processes: rt.Some(800 + r.Uint64N(5)), MemTotal: rt.Some[uint64](256 << 30),
				MemFree: rt.Some(200<<30 - used), MemAvailable: rt.Some(220<<30 - used), Buffers: rt.Some[uint64](1 << 20),
				Cached: rt.Some(8<<30 + read/2), SReclaimable: rt.Some[uint64](1 << 28), NetRxBytes: rt.Some(1<<40 + rx), NetTxBytes: rt.Some(1<<39 + rx/2),
				DiskReadBytes: rt.Some(1<<42 + read), DiskWriteBytes: rt.Some[uint64](1 << 41),
			},
			Job: rt.JobReading{
				Phase: rt.JobPresent, CPUUsage: rt.Some(cpu + system), CPUUser: rt.Some(cpu), CPUSystem: rt.Some(system),
				MemCurrent: rt.Some(used), MemPeak: rt.Some(used), MemLimit: rt.Some[uint64](64 << 30), Anon: rt.Some(used - 1<<30),
				File: rt.Some[uint64](1 << 30), Pids: rt.Some[uint64](5), IOReadBytes: rt.Some(read), IOWriteBytes: rt.Some[uint64](0),
			},
		}
		if err := w.Put(&s); err != nil {
			return "", err
		}
	}
	return w.Path(), w.End(run)
}
