// Package accounting runs sacct, parses what it reports of jobs and adds that to their runs.
package accounting
