package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// figure is a result next to its goal.
type figure struct {
	what          string
	value, goal   float64
	unit          string
	isLowerBetter bool
}

// printFigures prints the results next to their goals, and how busy the machine was.
func printFigures(figures []figure) {
	fmt.Println("figures next to their goals")
	for _, f := range figures {
		relation, isMet := "at least", f.value >= f.goal
		if f.isLowerBetter {
			relation, isMet = "at most", f.value <= f.goal
		}
		verdict := "met"
		if !isMet {
			verdict = "NOT MET"
		}
		fmt.Printf("  %-62s %8.1f %-6s %s %g: %s\n", f.what, f.value, f.unit, relation, f.goal, verdict)
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Printf("  load averages of the machine (1, 5, 15 minutes) at the end, with this load: %s\n", strings.Join(strings.Fields(string(text))[:3], ", "))
	}
}

// listFigures reads the slowest query of each database from the output of BenchmarkJobs.
func listFigures(path string) ([]figure, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	slowest := map[string]figure{}
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		name, rest, _ := strings.Cut(scanner.Text(), "\t")
		database, query, isJobs := strings.Cut(strings.TrimPrefix(name, "BenchmarkJobs/"), "/")
		value, _, hasValue := strings.Cut(rest, " p95-ms")
		if !isJobs || !hasValue {
			continue
		}
		ms, err := strconv.ParseFloat(strings.TrimSpace(value[strings.LastIndexByte(value, '\t')+1:]), 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, scanner.Text(), err)
		}
		if ms >= slowest[database].value {
			what := fmt.Sprintf("p95 of the slowest query of 1,000,000 jobs, %s (%s)", database, strings.TrimSpace(query))
			slowest[database] = figure{what, ms, 100, "ms", true}
		}
	}
	var figures []figure
	for _, database := range []string{"SQLite", "PostgreSQL"} {
		if slowest[database].what == "" {
			return nil, fmt.Errorf("%s has no figures of %s: it must be the output of go test -bench Jobs ./site/registry", path, database)
		}
		figures = append(figures, slowest[database])
	}
	return figures, scanner.Err()
}
