// Bench prints the cost of the programs on this machine, each figure next to its budget
// and, if there is one, its floor: the same work done by a C program or by a shell,
// measured in the same run. The second budget is a multiple of the floor, for a machine
// of another speed: it is exact only if program and floor slow down alike. RT_BIN names the directory of the programs. With -soak it shows
// instead what resource-tracker holds and uses in that time. The parts "tracker", "many" and
// "processes" need root: they measure jobs of a real Slurm, and install it.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is one figure. budget, floor and planned are 0 where there is none.
type row struct {
	what           string
	figure, budget float64
	unit           string
	floor          float64
	planned        float64 // the floor on the machine for which the budget was set
	more           bool    // more is better
	zero           bool    // the budget is 0
}

// Floors on the machine for which the budgets in ms and in us/s were set.
const (
	plannedShell = 1.3 // bash -c :, in ms
	plannedC     = 326 // C: 48 files at 1 Hz, in us/s
)

// toFloor returns the figure and the budget of r as multiples of their floors, 0 where there is none.
func (r row) toFloor() row {
	var multiple row
	if r.floor != 0 {
		multiple.figure = r.figure / r.floor
	}
	if r.floor != 0 && r.planned != 0 {
		multiple.budget = r.budget / r.planned
	}
	return multiple
}

// within reports whether a figure meets its budget.
func (r row) within() string {
	switch {
	case r.zero && r.figure > 0:
		return "OVER"
	case r.zero:
		return "ok"
	case r.budget == 0:
		return ""
	case r.more && r.figure >= r.budget, !r.more && r.figure <= r.budget:
		return "ok"
	}
	return "OVER"
}

func main() {
	soakFor := flag.Duration("soak", 0, "run resource-tracker, and the tracker of a job with steps that come and go, for this long, at least a minute")
	only := flag.String("only", "", "measure these parts alone, with commas: "+strings.Join(slices.Sorted(maps.Keys(parts)), ","))
	flag.DurationVar(&span, "for", span, "how long the programs are measured at 1 Hz; twice as long at 10 s")
	flag.BoolVar(&noSlurm, "no-slurm", false, "make the cgroups of the jobs without a Slurm")
	flag.Parse()
	bin := os.Getenv("RT_BIN")
	if bin == "" {
		bin = "build/bin"
	}
	if err := run(bin, *soakFor, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// span is how long programs are measured at 1 Hz.
var span = 30 * time.Second

var noSlurm bool

// parts are the measurements by name, order their sequence.
var (
	parts = map[string]func(bin, dir string) ([]row, error){
		"readings": readings, "spooling": spooling, "hooks": hooks, "counters": counters,
		"tracker": realJob, "many": manyJobs, "processes": manyProcesses, "wrapped": wrapped,
		"delivery": delivery, "drained": drained, "exchange": exchange, "jobs": listed, "sizes": sizes,
	}
	order = "readings,counters,spooling,hooks,tracker,many,processes,wrapped,delivery,drained,exchange,jobs,sizes"
)

func run(bin string, soakFor time.Duration, only string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	fmt.Println(machine())
	dir, err := os.MkdirTemp("", "rt-bench-")
	if err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // users run jobs in it
		return err
	}
	defer os.RemoveAll(dir)
	defer os.RemoveAll(stateRoot(dir))
	bin, err = install(bin, dir)
	if err != nil {
		return err
	}
	if soakFor > 0 {
		rows, err := soak(bin, dir, max(soakFor, time.Minute))
		if err != nil {
			return err
		}
		return show(rows)
	}
	var rows []row
	for name := range strings.SplitSeq(cmp.Or(only, order), ",") {
		part, ok := parts[name]
		if !ok {
			return fmt.Errorf("there is no part %q; -h lists them", name)
		}
		more, err := part(bin, dir)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	fmt.Println("load at the end:", load())
	return show(rows)
}

// install copies the programs as `make install` does. The linker writes its output in large
// blocks, which the kernel maps as a whole: such a program is several MiB larger in memory.
func install(bin, dir string) (string, error) {
	programs, err := filepath.Glob(filepath.Join(bin, "r*-*"))
	if err != nil || len(programs) == 0 {
		return "", fmt.Errorf("no programs in %s; run make build first", bin)
	}
	to := filepath.Join(dir, "bin")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return "", err
	}
	out, err := exec.Command("install", append(append([]string{"-m", "755"}, programs...), to)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("install: %w: %s", err, out)
	}
	return to, nil
}

func show(rows []row) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "figure\t\tbudget\t\tx floor\tbudget\t\t  what")
	for _, r := range rows {
		budget, multiple := "-", r.toFloor()
		if r.budget != 0 || r.zero {
			budget = number(r.budget)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", number(r.figure), r.unit, budget, r.within(),
			orDash(multiple.figure), orDash(multiple.budget), multiple.within(), r.what)
	}
	return w.Flush()
}

// orDash is number, with a dash for 0.
func orDash(v float64) string {
	if v == 0 {
		return "-"
	}
	return number(v)
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
