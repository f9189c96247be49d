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
		var nothing map[string]int
		nothing["x"] = 1
	}()
	if len(told) != 1 || !strings.Contains(told[0].Error(), "nil map") || !strings.Contains(told[0].Error(), "fault_test.go") {
		t.Errorf("of a panic is told %v", told)
	}
	func() { defer Survive(tell) }()
	if len(told) != 1 {
		t.Errorf("of nothing is told %v", told[1:])
	}
}
