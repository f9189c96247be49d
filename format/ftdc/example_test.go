package ftdc_test

import (
	"bytes"
	"fmt"
	"io"

	"github.com/resource-tracker/rt/format/ftdc"
)

// Two readings. The second costs what has changed.
func Example() {
	var file bytes.Buffer
	enc := ftdc.NewEncoder(&file)
	for i := range 2 {
		size := file.Len()
		err := enc.EncodeDatum(&ftdc.FlatDatum{Time: 123 + int64(i), Readings: []ftdc.Reading{
			{MetricName: "motor.powerPct", Value: 0.2}, {MetricName: "motor.pos", Value: 5000 + float32(i)},
		}})
		if err != nil {
			panic(err)
		}
		fmt.Println(file.Len()-size, "bytes")
	}

	dec := ftdc.NewDecoder(&file)
	for {
		at, err := dec.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(err)
		}
		fmt.Println(at, dec.Names()[1], dec.Values()[1])
	}
	// Output:
	// 49 bytes
	// 13 bytes
	// 123 motor.pos 5000
	// 124 motor.pos 5001
}
