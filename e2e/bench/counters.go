package main

import "runtime"

// counters measures what energy and software counters add to a snapshot.
func counters(_, _ string) ([]row, error) {
	energy, err := goBench("./collect/energy", "^BenchmarkRead$")
	if err != nil {
		return nil, err
	}
	perf, err := goBench("./collect/perf", "^BenchmarkRead$")
	if err != nil {
		return nil, err
	}
	put, err := goBench("./spool", "^BenchmarkPutCounters$")
	if err != nil {
		return nil, err
	}
	node, err := goBench("./collect", "^BenchmarkSnapshot$")
	if err != nil {
		return nil, err
	}
	cgroup, err := goBench("./collect/cgroup", "^BenchmarkReadV2$")
	if err != nil {
		return nil, err
	}
	e, p := energy["Read"]["ns/op"]/1000, perf["Read"]["ns/op"]/1000
	without := (node["Snapshot"]["ns/op"] + cgroup["ReadV2"]["ns/op"] + put["PutCounters/without"]["ns/op"]) / 1000
	rows := put["PutCounters/with"]["ns/op"]/1000 - put["PutCounters/without"]["ns/op"]/1000
	with := without + e + p + rows
	return []row{
		{what: "energy of two packages and their memory", figure: e, unit: "us"},
		{what: "three software events of a cgroup, for each CPU", figure: p / float64(runtime.NumCPU()), unit: "us"},
		{what: "  allocations of both", figure: energy["Read"]["allocs/op"] + perf["Read"]["allocs/op"], unit: "allocs"},
		{what: "their rows in SQLite, of two CPUs", figure: rows, unit: "us"},
		{what: "a snapshot without them: node, cgroup v2 and its row, tight loop", figure: without, unit: "us", budget: 60},
		{what: "a snapshot with them", figure: with, unit: "us", budget: 60},
		{what: "  of a core at 1 Hz, tight loop (budget_cpu)", figure: with / 1e4, unit: "%", budget: 0.5},
	}, nil
}
