// Command rt-prolog starts the tracker of a job. slurmd runs it before the job (Prolog=
// in slurm.conf). It always exits 0.
package main

import "github.com/resource-tracker/rt/cmd/internal/hook"

func main() { hook.Prolog(hook.System("rt-prolog")) }
