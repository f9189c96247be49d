package powerapi_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/resource-tracker/rt/format/powerapi"
)

func ExampleDecodeJSON() {
	file := `{"timestamp": "2021-01-13T09:51:22.630", "sensor": "n1", "target": "all", "power": 210.5}`
	for report, err := range powerapi.DecodeJSON(strings.NewReader(file)) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		if p, ok := report.(*powerapi.PowerReport); ok {
			fmt.Printf("%s: %g W\n", p.Sensor, p.Power)
		}
	}
	// Output: n1: 210.5 W
}

func ExampleHWPCReport_Set() {
	r := &powerapi.HWPCReport{
		Header: powerapi.Header{Time: time.Date(2021, 1, 13, 9, 51, 22, 0, time.UTC), Sensor: "n1"},
		Target: powerapi.All,
	}
	joules, err := powerapi.RAPLCount(1_000_000)
	if err != nil {
		fmt.Println(err)
	}
	r.Set(powerapi.GroupRAPL, 0, 0, powerapi.EventPackage, joules)
	line, err := r.AppendJSON(nil, powerapi.ISO)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Print(string(line))
	// Output:
	// {"timestamp":"2021-01-13T09:51:22.000","sensor":"n1","target":"all","groups":{"rapl":{"0":{"0":{"RAPL_ENERGY_PKG":4294967296}}}},"metadata":{}}
}
