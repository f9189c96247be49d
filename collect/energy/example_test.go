package energy_test

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect/energy"
)

// A node without energy counters is an error that is fs.ErrNotExist.
func ExampleSource() {
	source := energy.New("/nowhere")
	defer source.Close()
	var s rt.Snapshot
	err := source.Read(&s)
	fmt.Println(len(s.Energy), errors.Is(err, fs.ErrNotExist))
	// Output: 0 true
}
