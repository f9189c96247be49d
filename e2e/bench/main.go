// Bench measures the figures of docs/budgets.md on this machine, each next to its limit. It ends with status 1 if one
// is over its limit. RT_BIN names the directory of the programs. The parts "tracker", "many" and "resident" need root,
// because they make cgroups. No part needs Slurm.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// figure is one figure of docs/budgets.md.
type figure struct {
	what         string
	value, limit float64
	unit         string
	atLeast      bool   // the limit is the lowest good value, not the highest
	unmeasured   bool   // the value is unknown; from has the reason
	from         string // what the value was computed from
}

// isOver reports whether a figure does not keep its limit.
func (f figure) isOver() bool {
	switch {
	case f.unmeasured:
		return false
	case f.atLeast:
		return f.value < f.limit
	}
	return f.value > f.limit
}

// span is how long trackers are measured.
var span time.Duration

// parts are the measurements by name, order their sequence.
var (
	parts = map[string]func(bin, dir string) ([]figure, error){
		"tracker": oneTracker, "many": manyTrackers, "resident": resident, "hooks": hooks, "drain": drain,
	}
	order = "tracker,many,resident,hooks,drain"
)

func main() {
	only := flag.String("only", order, "measure these parts alone, with commas: "+strings.Join(slices.Sorted(maps.Keys(parts)), ","))
	flag.DurationVar(&span, "for", 30*time.Second, "how long trackers are measured at 1 Hz, and twice as long at 10 s; from 1h on, \"resident\" is measured in real time")
	flag.Parse()
	bin := cmp.Or(os.Getenv("RT_BIN"), "build/bin")
	if err := run(bin, strings.Split(*only, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(bin string, names []string) error {
	for _, name := range names {
		if parts[name] == nil {
			return fmt.Errorf("there is no part %q; -h lists them", name)
		}
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	fmt.Println(machine())
	dir, err := os.MkdirTemp("", "rt-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer os.RemoveAll(stateRoot(dir))
	bin, err = install(bin, dir)
	if err != nil {
		return err
	}
	var figures []figure
	for _, name := range names {
		more, err := parts[name](bin, dir)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		figures = append(figures, more...)
	}
	fmt.Println("load at the end:", load())
	return show(os.Stdout, figures)
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

// show prints figures next to their limits. It returns an error if one is over its limit.
func show(to io.Writer, figures []figure) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tmeasured\tlimit\t\tfrom")
	over := 0
	for _, f := range figures {
		value, verdict := number(f.value)+" "+f.unit, "ok"
		switch {
		case f.unmeasured:
			value, verdict = "-", "not measured"
		case f.isOver():
			verdict = "OVER"
			over++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", f.what, value, number(f.limit)+" "+f.unit, verdict, f.from)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if over > 0 {
		return errors.New("a figure is over its limit")
	}
	return nil
}

func number(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
