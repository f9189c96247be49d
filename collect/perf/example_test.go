package perf_test

import (
	"fmt"

	"github.com/resource-tracker/rt/collect/perf"
)

// An event has a name for the readings, which is its own name if there is no other.
func ExampleParse() {
	events, err := perf.Parse("/sys", "cycles, INSTRUCTIONS_RETIRED=instructions, r01c2")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range events {
		fmt.Printf("%s: type %d, config %#x\n", e.Name, e.Type, e.Config)
	}
	fmt.Println(perf.Check("cyclse"))
	// Output:
	// cycles: type 0, config 0x0
	// INSTRUCTIONS_RETIRED: type 0, config 0x1
	// r01c2: type 4, config 0x1c2
	// the event "cyclse" is neither a generic one such as cycles nor like r01c2 nor like power/energy-pkg/
}
