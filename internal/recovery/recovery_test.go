package recovery

import (
	"strings"
	"testing"
)

func TestHandle(t *testing.T) {
	var reported []error
	report := func(err error) { reported = append(reported, err) }
	func() {
		defer Handle(report)
		panic("a hole in the map")
	}()
	if len(reported) != 1 {
		t.Fatalf("a panic is reported %d times, want once", len(reported))
	}
	text := reported[0].Error()
	if !strings.Contains(text, "a hole in the map") || !strings.Contains(text, "recovery_test.go") {
		t.Errorf("the report lacks the panic's value or place: %s", text)
	}
	func() { defer Handle(report) }()
	if len(reported) != 1 {
		t.Errorf("without a panic %v is reported", reported[1:])
	}
}
