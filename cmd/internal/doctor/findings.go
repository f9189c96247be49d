package doctor

import (
	"errors"
	"fmt"
	"io/fs"
)

// findings are the results of checks.
type findings struct{ checks []Check }

func (d *findings) ok(name, format string, args ...any) {
	d.checks = append(d.checks, Check{Name: name, Status: OK, Finding: fmt.Sprintf(format, args...)})
}

// unknown adds a check that could not be done, and why.
func (d *findings) unknown(name string, err error) {
	fix := "fix this reason, and run rt-spool doctor again"
	if errors.Is(err, fs.ErrPermission) {
		fix = "run rt-spool doctor as root"
	}
	d.checks = append(d.checks, Check{Name: name, Status: Unknown, Finding: fmt.Sprintf("not checked: %v", err), Fix: fix})
}

func (d *findings) warn(name, finding, meaning, fix string) {
	d.checks = append(d.checks, Check{name, Warning, finding, meaning, fix})
}

func (d *findings) fail(name, finding, meaning, fix string) {
	d.checks = append(d.checks, Check{name, Failure, finding, meaning, fix})
}

// okUnless adds an ok check if no check of this name has been added since the number n of checks.
func (d *findings) okUnless(n int, name, format string, args ...any) {
	for _, c := range d.checks[n:] {
		if c.Name == name {
			return
		}
	}
	d.ok(name, format, args...)
}
