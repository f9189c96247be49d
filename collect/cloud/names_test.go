package cloud

import (
	"strings"
	"testing"
)

func TestBareMetal(t *testing.T) {
	for name, want := range map[string]bool{
		"m7i.metal-24xl": true, "i3.metal": true, "c3-standard-192-metal": true, "ecs.ebmg7.32xlarge": true, "ecs.sccg7.32xlarge": true,
		"m7i.large": false, "ecs.g7.xlarge": false, "metal": false, "x.metallic": false, "my.ecs.ebm": false, "": false,
	} {
		if got := isBareMetal(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRegionOf(t *testing.T) {
	for zone, want := range map[string]string{"eu-west-par-a": "eu-west-par", "GRA11": "GRA11", "a-1": "a-1", "a-B": "a-B", "-a": "-a", "": ""} {
		if got := regionOf(zone); got != want {
			t.Errorf("%s: %s", zone, got)
		}
	}
}

func TestClean(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, s := range []string{"eu-west-1", "projects/1234/zones/europe-west4-a", "a", "7", long, "a.b_c:d/e+f-g"} {
		if clean(s) != s {
			t.Errorf("%q did not pass", s)
		}
	}
	for _, s := range []string{"", long + "a", "-a", ".", "a b", "a\n", "<html>", "é", "a\x00"} {
		if got := clean(s); got != "" {
			t.Errorf("%q passed", s)
		}
	}
}
