package page

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminance is the relative luminance of WCAG 2 of a colour #rrggbb.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(colour, "#"), 16, 32)
	if err != nil || len(colour) != 7 {
		t.Fatalf("%q is no colour", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(n>>(16-8*i)&255) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
			continue
		}
		sum += weight * math.Pow((c+0.055)/1.055, 2.4)
	}
	return sum
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// The colours have the contrasts that WCAG 2 AA requires: 4.5 for text, 3 for borders and bars.
func TestContrast(t *testing.T) {
	text, err := files.ReadFile("style.css")
	if err != nil {
		t.Fatal(err)
	}
	schemes := regexp.MustCompile(`:root \{([^}]*)\}`).FindAllStringSubmatch(string(text), -1)
	if len(schemes) != 2 {
		t.Fatalf("%d sets of colours: want one for light and one for dark mode", len(schemes))
	}
	for _, scheme := range schemes {
		colours := map[string]string{}
		for _, m := range regexp.MustCompile(`--(\w+): (#\w+);`).FindAllStringSubmatch(scheme[1], -1) {
			colours[m[1]] = m[2]
		}
		for _, c := range []struct {
			on, of string
			least  float64
		}{
			{"bg", "fg", 4.5}, {"bg", "dim", 4.5}, {"bg", "link", 4.5}, {"soft", "fg", 4.5}, {"soft", "link", 3}, {"bg", "line", 3}, {"soft", "line", 3},
			{"bg", "reserved", 3}, {"bg", "used", 3},
		} {
			if got := contrast(t, colours[c.on], colours[c.of]); got < c.least {
				t.Errorf("%s on %s (%s on %s) has a contrast of %.2f: want %v", c.of, c.on, colours[c.of], colours[c.on], got, c.least)
			}
		}
	}
	if rest := strings.Join(strings.Split(string(text), "}")[3:], ""); regexp.MustCompile(`#[0-9a-fA-F]{3,6}\b`).MatchString(rest) {
		t.Error("a rule has a colour that is not one of the variables")
	}
}
