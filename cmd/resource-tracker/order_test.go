package main

import (
	"slices"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// Section 5: a reading takes CPU, memory, network, disk and GPU in this order.
func TestOrderOfReading(t *testing.T) {
	trk := &tracking{}
	trk.run.PID.Set(1)
	s := settings{procfs: t.TempDir(), sysfs: t.TempDir(), scope: rt.ScopeNode, interval: time.Second, gpu: true}
	if err := trk.openSources(s, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, source := range trk.sources {
		switch name := source.Name(); name {
		case "cpu", "memory", "network", "disk", "gpu":
			order = append(order, name)
		}
		if err := source.Close(); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"cpu", "memory", "network", "disk", "gpu"}; !slices.Equal(order, want) {
		t.Errorf("read are %q, want %q", order, want)
	}
}
