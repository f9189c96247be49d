// Command rt-prolog starts the tracker of a job. slurmd runs it before the job
// (Prolog= in slurm.conf). It always exits 0.
package main

import (
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/hook"
	"github.com/resource-tracker/rt/slurm"
)

func main() { run(hook.System("rt-prolog")) }

func run(opts hook.Options) {
	hook.Run(opts, (*slurm.Hook).Prolog, func(c config.Hooks) time.Duration { return c.ReadyTimeout.Duration })
}
