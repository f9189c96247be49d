package main

import (
	"flag"
	"fmt"
)

// about is for a user who starts rt-tracker by hand: it would wait for its standard input.
const about = `rt-tracker tracks one Slurm job on this node. It is not started by hand:
rt-prolog starts it, with the run on its standard input. What it reads goes to
the spool (spool.dir of rt.toml), which rt-spool shows; its messages go to the
log (log.target). To track a command: resource-tracker -- COMMAND
`

// setUsage adds to the help what the program is.
func setUsage(flags *flag.FlagSet) {
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: rt-tracker [--config FILE] < RUN\n\n%s\n", about)
		flags.PrintDefaults()
	}
}
