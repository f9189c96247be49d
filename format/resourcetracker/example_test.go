package resourcetracker_test

import (
	"bytes"
	"fmt"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/samples"
	"github.com/resource-tracker/rt/format/resourcetracker"
)

func ExampleAppendCSV() {
	file := []byte(resourcetracker.CSVHeader)
	file = resourcetracker.AppendCSV(file, 1772367180, &rt.Scalars{Processes: rt.Some[uint64](7)})
	_, rows, err := samples.ReadCSV(bytes.NewReader(file))
	if err != nil {
		fmt.Println(err)
		return
	}
	for row, err := range rows {
		if err != nil {
			fmt.Println(err)
			break
		}
		n, _ := row.Scalars.Processes.Get()
		fmt.Printf("%d: %d processes, disk space known: %t\n", row.Timestamp, n, row.Scalars.SpaceTotal.Valid())
	}
	// Output: 1772367180: 7 processes, disk space known: false
}
