// Command rt-epilog stops the tracker of a job. slurmd runs it after the job
// (Epilog= in slurm.conf). It always exits 0.
package main

import (
	"time"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/hook"
	"github.com/resource-tracker/rt/slurm"
)

func main() { run(hook.System("rt-epilog")) }

func run(opts hook.Options) {
	hook.Run(opts, (*slurm.Hook).Epilog, func(c config.Hooks) time.Duration { return c.StopTimeout.Duration })
}
