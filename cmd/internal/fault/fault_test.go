package fault

import (
	"strings"
	"testing"
)

func TestSurvive(t *testing.T) {
	var told []error
	tell := func(err error) { told = append(told, err) }
	func() {
		defer Survive(tell)
		panic("a hole in the map")
	}()
	if len(told) != 1 || !strings.Contains(told[0].Error(), "a hole in the map") || !strings.Contains(told[0].Error(), "fault_test.go") {
		t.Errorf("of a panic is told %v", told)
	}
	func() { defer Survive(tell) }()
	if len(told) != 1 {
		t.Errorf("of nothing is told %v", told[1:])
	}
}
