// Resource-tracker samples a machine, or a command and the machine around it.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/internal/recovery"
)

// The exit statuses of this program only. With a command the status is the command's own, as a
// shell reports it.
const (
	exitNotExecutable = 126 // the command is there and cannot be run
	exitNotFound      = 127 // there is no such command
	exitSignal        = 128 // plus the signal that ended the command
)

const exitHelp = `EXIT STATUS:
   0       done, or stopped by a signal
   1       an error, see the message
   2       invalid command line or environment
   With a command it is the command's own, or
   126     the command cannot be executed
   127     the command was not found
   128+n   signal n ended the command
`

var (
	errNotExecutable = errors.New("cannot be executed")
	errNotFound      = errors.New("command not found")
)

// commandStatus is the status of a command other than 0; it prints no message.
type commandStatus int

func (s commandStatus) Error() string { return fmt.Sprintf("the command's status is %d", int(s)) }

// exitStatus maps errors to exit statuses.
func exitStatus(err error) int {
	command, isCommand := errors.AsType[commandStatus](err)
	switch {
	case err == nil:
		return cli.ExitOK
	case isCommand:
		return int(command)
	case errors.Is(err, cli.ErrUsage):
		return cli.ExitUsage
	case errors.Is(err, errNotFound):
		return exitNotFound
	case errors.Is(err, errNotExecutable):
		return exitNotExecutable
	}
	return cli.ExitError
}

func main() { os.Exit(run(os.Args, os.Stdout, os.Stderr)) }

// run is the program without os.Exit.
func run(args []string, stdout, stderr io.Writer) (status int) {
	defer recovery.Handle(func(err error) {
		cli.Message(stderr, "resource-tracker", "%v", err)
		status = cli.ExitError
	})
	err := app(args, stdout)
	if _, isCommand := errors.AsType[commandStatus](err); err != nil && !isCommand {
		cli.Message(stderr, "resource-tracker", "%v", err)
	}
	return exitStatus(err)
}
