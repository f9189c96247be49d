// Package recovery turns the panic of one goroutine into an error, so that the rest
// of the program keeps recording and delivering.
package recovery

import (
	"fmt"
	"runtime/debug"
)

// Handle is deferred at the top of a goroutine. A panic ends that goroutine only:
// report receives it as an error with its stack.
func Handle(report func(error)) {
	if p := recover(); p != nil {
		report(fmt.Errorf("internal error, please report it: %v\n%s", p, debug.Stack()))
	}
}
