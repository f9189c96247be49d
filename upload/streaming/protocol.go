// Package streaming lets rt-spool send a run while resource-tracker records it, so that
// resource-tracker links no network code. Process is the side of resource-tracker. It starts
// `rt-spool stream`, writes an Order and commands to the standard input, and reads messages from
// the standard output. Tracker is the side of rt-spool. The token stays in the environment.
package streaming

import (
	"time"

	"github.com/resource-tracker/rt"
)

// Program is the program that sends runs, and Verb its verb for a run that is recorded.
const (
	Program = "rt-spool"
	Verb    = "stream"
)

// Order is the first line that rt-spool reads, one JSON object.
type Order struct {
	Path    string        `json:"path"`     // of the run's spool file
	Private bool          `json:"private"`  // no other run is in its directory, which is removed after the delivery
	Every   time.Duration `json:"every_ns"` // between two uploads
	Scope   rt.Scope      `json:"scope"`
	Dialect string        `json:"dialect"` // of the API; empty: the API determines it
	Sysfs   string        `json:"sysfs"`
}

// The commands that follow the order, one a line. If the input ends, the tracker has died: rt-spool exits and
// leaves the run to a drain.
const (
	cmdLeave  = "leave"  // the run is about to end: upload nothing more before finish, lock the spool, and confirm it
	cmdFinish = "finish" // the run has ended: deliver the rest
	cmdStop   = "stop"   // finish takes too long; the rest of the line says what the limit was
)

// message is a line that rt-spool writes, one JSON object with one of these.
type message struct {
	Warning string `json:"warning,omitempty"`
	Left    bool   `json:"left,omitempty"`    // confirms leave
	Kept    string `json:"kept,omitempty"`    // why the run is not delivered; the last message
	Settled bool   `json:"settled,omitempty"` // nothing remains to be sent; the last message
}
