// Command rt-epilog stops the tracker of a job. slurmd runs it after the job (Epilog=
// in slurm.conf). It always exits 0.
//
// The Go runtime reads the CPU limit of its cgroup only at its start: a hook takes milliseconds.
//
//go:debug updatemaxprocs=0
package main

import "github.com/resource-tracker/rt/cmd/internal/hook"

func main() { hook.Epilog(hook.System("rt-epilog")) }
