// Package accounting reads what sacct reports of jobs and completes their runs with it.
package accounting
