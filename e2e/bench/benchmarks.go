package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// result is a line of `go test -bench`: figures by their unit.
type result map[string]float64

var benchLine = regexp.MustCompile(`(?m)^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// goBench runs the benchmarks of a package that match a pattern.
func goBench(pkg, pattern string) (map[string]result, error) {
	out, err := exec.Command("go", "test", "-run", "^$", "-bench", pattern, "-benchtime", "1s", "-benchmem", pkg).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -bench %s %s: %w\n%s", pattern, pkg, err, out)
	}
	all := map[string]result{}
	for _, m := range benchLine.FindAllStringSubmatch(string(out), -1) {
		r := result{}
		f := strings.Fields(m[2])
		for i := 0; i+1 < len(f); i += 2 {
			if r[f[i+1]], err = strconv.ParseFloat(f[i], 64); err != nil {
				return nil, fmt.Errorf("go test -bench %s: %w", pkg, err)
			}
		}
		all[m[1]] = r
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no benchmark of %s matches %s", pkg, pattern)
	}
	return all, nil
}

// readings compares a reading of the node with the C program that reads the same files.
func readings(_, dir string) ([]row, error) {
	floorBin, err := buildFloor(dir)
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(floorBin).Output()
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	var ns float64
	if _, err := fmt.Sscanf(string(out), "%f ns", &ns); err != nil {
		return nil, fmt.Errorf("floor printed %q: %w", out, err)
	}
	node, err := goBench("./collect", "^BenchmarkSnapshot$")
	if err != nil {
		return nil, err
	}
	cgroup, err := goBench("./collect/cgroup", "^BenchmarkRead")
	if err != nil {
		return nil, err
	}
	put, err := goBench("./spool", "^BenchmarkPut$/^scalars$")
	if err != nil {
		return nil, err
	}
	n, c, p := node["Snapshot"], cgroup["ReadV1"], put["Put/scalars"]
	whole := (n["ns/op"] + c["ns/op"] + p["ns/op"]) / 1000
	return []row{
		{what: "C: a reading of the node, tight loop (the floor)", figure: ns / 1000, unit: "us"},
		{what: "a reading of the node, tight loop", figure: n["ns/op"] / 1000, unit: "us", floor: ns / 1000},
		{what: "  allocations", figure: n["allocs/op"], unit: "allocs"},
		{what: "a reading of a job's cgroup v1, tight loop", figure: c["ns/op"] / 1000, unit: "us"},
		{what: "  allocations", figure: c["allocs/op"], unit: "allocs"},
		{what: "a reading of a job's cgroup v2, tight loop", figure: cgroup["ReadV2"]["ns/op"] / 1000, unit: "us"},
		{what: "a snapshot: node, cgroup v1 and its row in SQLite, tight loop", figure: whole, unit: "us", budget: 60},
		{what: "  as a multiple of the floor", figure: whole * 1000 / ns, unit: "x", budget: 2.5},
	}, nil
}

func spooling(_, _ string) ([]row, error) {
	put, err := goBench("./spool", "^BenchmarkPut$/^(scalars|cores64|devices|gpus8)$")
	if err != nil {
		return nil, err
	}
	const kept, written = "kept-B/op", "written-B/op"
	scalars := put["Put/scalars"]
	return []row{
		{what: "kept in the spool per snapshot, scalars", figure: scalars[kept], unit: "B", budget: 170},
		{what: "written per snapshot, scalars", figure: scalars[written], unit: "B", budget: 1000},
		{what: "kept per core and snapshot", figure: (put["Put/cores64"][kept] - scalars[kept]) / 64, unit: "B", budget: 2},
		{what: "kept per GPU and snapshot", figure: (put["Put/gpus8"][kept] - put["Put/devices"][kept]) / 8, unit: "B", budget: 60},
	}, nil
}

func delivery(_, _ string) ([]row, error) {
	drain, err := goBench("./upload", "^BenchmarkDrain$")
	if err != nil {
		return nil, err
	}
	read, err := goBench("./spool", "^BenchmarkRead$")
	if err != nil {
		return nil, err
	}
	derive := drain["Drain"]["snapshots/s"]
	rows := []row{{what: "drain from memory: derive, CSV, gzip, hash, ledger", figure: derive, unit: "/s", more: true}}
	if s, ok := read["Read/rates"]; ok && s["rows/s"] > 0 {
		rows = append(rows,
			row{what: "snapshots read from SQLite", figure: s["rows/s"], unit: "/s", more: true},
			row{what: "drain, snapshots per second and core, both together", figure: 1 / (1/derive + 1/s["rows/s"]), unit: "/s", budget: 100_000, more: true})
	}
	return rows, nil
}

func sizes(bin, _ string) ([]row, error) {
	var rows []row
	for _, p := range []struct {
		name   string
		budget float64
	}{{"rt-prolog", 3}, {"rt-epilog", 3}, {"rt-tracker", 8}, {"resource-tracker", 9e6 / (1 << 20)}, {"rt-spool", 0}} {
		info, err := os.Stat(filepath.Join(bin, p.name))
		if err != nil {
			return nil, fmt.Errorf("%w; run make build first", err)
		}
		rows = append(rows, row{what: p.name + ", stripped", figure: float64(info.Size()) / (1 << 20), unit: "MiB", budget: p.budget})
	}
	return rows, nil
}
