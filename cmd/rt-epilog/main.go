// Command rt-epilog stops the tracker of a job. slurmd runs it after the job (Epilog=
// in slurm.conf). It always exits 0.
package main

import "github.com/resource-tracker/rt/cmd/internal/hook"

func main() { hook.Epilog(hook.System("rt-epilog")) }
