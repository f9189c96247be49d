// Resource-tracker samples a machine, or a command and the machine around it.
package main

import "os"

func main() {
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}
