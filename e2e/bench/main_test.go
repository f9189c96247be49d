package main

import (
	"strings"
	"testing"
)

func TestShowFailsOverALimit(t *testing.T) {
	for _, c := range []struct {
		name    string
		figure  figure
		over    bool
		verdict string
	}{
		{"at the limit", figure{value: 3, limit: 3}, false, "ok"},
		{"over it", figure{value: 3.01, limit: 3}, true, "OVER"},
		{"at the lowest", figure{value: 200, limit: 200, atLeast: true}, false, "ok"},
		{"below the lowest", figure{value: 199, limit: 200, atLeast: true}, true, "OVER"},
		{"not measured", figure{limit: 200, atLeast: true, unmeasured: true}, false, "not measured"},
	} {
		var out strings.Builder
		err := show(&out, []figure{{limit: 1}, c.figure})
		if (err != nil) != c.over {
			t.Errorf("%s: the error is %v", c.name, err)
		}
		if !strings.Contains(out.String(), c.verdict) {
			t.Errorf("%s: no %q in\n%s", c.name, c.verdict, out.String())
		}
	}
}

func TestOrderNamesAllParts(t *testing.T) {
	names := strings.Split(order, ",")
	if len(names) != len(parts) {
		t.Errorf("%d parts are measured by default, %d exist", len(names), len(parts))
	}
	for _, name := range names {
		if parts[name] == nil {
			t.Errorf("there is no part %q", name)
		}
	}
}
