package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/resource-tracker/rt/internal/printable"
)

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
	_, err := fmt.Fprintf(w, "%d checks of a %s: %d ok, %d warnings, %d failures, %d not checked\n", len(checks), Title(roles), count[OK], count[Warning], count[Failure], count[Unknown])
	return err
}

// Title returns roles as text, such as "login node".
func Title(roles []Role) string {
	words := make([]string, len(roles))
	for i, role := range roles {
		words[i] = titles[role]
	}
	return strings.Join(words, " and ")
}
