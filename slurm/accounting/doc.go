// Package accounting parses what sacct reports of jobs and adds it to their runs. Its
// callers run sacct.
package accounting
