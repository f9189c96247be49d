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
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z-]+): light-dark\((#\w+), (#\w+)\);`).FindAllStringSubmatch(string(text), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	for _, c := range []struct {
		on, of string
		least  float64
	}{
		{"page", "fg", 4.5}, {"page", "dim", 4.5}, {"page", "link", 4.5}, {"card", "fg", 4.5}, {"card", "dim", 4.5}, {"card", "link", 4.5}, {"card", "field", 3}, {"track", "fg", 4.5}, {"track", "dim", 4.5},
		{"card", "used", 3}, {"card", "unused", 3}, {"card", "good", 4.5}, {"card", "wasteful", 4.5}, {"card", "harmful", 4.5}, {"card", "plain", 4.5},
		{"good-soft", "good", 4.5}, {"wasteful-soft", "wasteful", 4.5}, {"harmful-soft", "harmful", 4.5}, {"plain-soft", "plain", 4.5}, {"track", "good", 3}, {"track", "wasteful-bar", 3}, {"track", "harmful", 3}, {"track", "plain", 3},
	} {
		for i, scheme := range []string{"light", "dark"} {
			on, of := colours[c.on][i], colours[c.of][i]
			if got := contrast(t, on, of); got < c.least {
				t.Errorf("%s: %s on %s (%s on %s) has a contrast of %.2f: want %v", scheme, c.of, c.on, of, on, got, c.least)
			}
		}
	}
	_, rules, _ := strings.Cut(string(text), "\n}\n")
	if regexp.MustCompile(`: [^;]*#[0-9a-fA-F]{3,6}\b`).MatchString(rules) {
		t.Error("a rule has a colour that is not one of the variables")
	}
}
