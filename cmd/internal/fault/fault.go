// Package fault keeps a defect of one goroutine from ending the whole program, and
// with it whatever the program keeps or delivers.
package fault

import (
	"fmt"
	"runtime/debug"
)

// Survive is deferred at the top of a goroutine. A panic ends the goroutine and
// nothing else: tell gets it as an error with the place where it began.
func Survive(tell func(error)) {
	if p := recover(); p != nil {
		tell(fmt.Errorf("a fault of this program, please report it: %v\n%s", p, debug.Stack()))
	}
}
