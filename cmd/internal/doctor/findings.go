package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/resource-tracker/rt/internal/printable"
)

// findings are the results of checks.
type findings struct{ checks []Check }

// add adds a check, if there is one.
func (d *findings) add(c Check) {
	if c.Name != "" {
		d.checks = append(d.checks, c)
	}
}

func ok(name, format string, args ...any) Check {
	return Check{Name: name, Status: OK, Finding: fmt.Sprintf(format, args...)}
}

// unknown is a check that could not be done, and why.
func unknown(name string, err error) Check {
	fix := "fix this reason, and run rt-spool doctor again"
	if errors.Is(err, fs.ErrPermission) {
		fix = "run rt-spool doctor as root"
	}
	return Check{Name: name, Status: Unknown, Finding: fmt.Sprintf("not checked: %v", err), Fix: fix}
}

func warn(name, finding, meaning, fix string) Check {
	return Check{name, Warning, finding, meaning, fix}
}

func fail(name, finding, meaning, fix string) Check {
	return Check{name, Failure, finding, meaning, fix}
}

// okUnless adds an ok check if no check of this name has been added since the number n of checks.
func (d *findings) okUnless(n int, name, format string, args ...any) {
	for _, c := range d.checks[n:] {
		if c.Name == name {
			return
		}
	}
	d.add(ok(name, format, args...))
}

// titles are the roles as text.
var titles = map[Role]string{Node: "compute node", Login: "login node", Receiver: "receiver"}

// Print writes the checks for a person: those with a problem have lines with what it means and the fix.
// Without all, checks that are ok are only counted.
func Print(w io.Writer, roles []Role, checks []Check, all bool) error {
	count := map[Status]int{}
	for _, c := range checks {
		count[c.Status]++
		if c.Status == OK && !all {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-8s %s: %s\n", c.Status, c.Name, printable.Text(c.Finding)); err != nil {
			return err
		}
		for _, line := range []string{c.Meaning, c.Fix} {
			if line != "" {
				fmt.Fprintf(w, "         %s\n", printable.Text(line))
			}
		}
	}
	_, err := fmt.Fprintf(w, "%d checks of a %s: %d ok, %s, %s, %d not checked\n", len(checks), Title(roles), count[OK], counted(count[Warning], "warning"), counted(count[Failure], "failure"), count[Unknown])
	return err
}

// counted is a number with its noun: "1 warning", "2 warnings".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Title returns roles as text, such as "login node".
func Title(roles []Role) string {
	words := make([]string, len(roles))
	for i, role := range roles {
		words[i] = titles[role]
	}
	return strings.Join(words, " and ")
}
