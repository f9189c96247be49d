package slurm

import "testing"

// Names keep the spaces and joiners of Unicode.
func TestPrintable(t *testing.T) {
	for s, ok := range map[string]bool{
		"a b": true, "run\u00a05": true, "10\u202f000": true, "a\u3000b": true, "a\u200db": true,
		"": false, "far too long": false, "a\x1bb": false, "a\nb": false, "a\u009bb": false, "a\xff": false,
	} {
		if got := Printable(s, 8); got != ok {
			t.Errorf("Printable(%q) = %v", s, got)
		}
	}
}

func TestSLUID(t *testing.T) {
	for s, ok := range map[string]bool{
		"s0123456789ABC": true, "sABCDEFGHJKMNP": true, "sabcdefghjkmnp": true, "sZZZZZZZZZZZZZ": true,
		"s0123456789AB": false, "s0123456789ABCD": false, "x0123456789ABC": false, "": false,
		"s0123456789ABI": false, "s0123456789ABL": false, "s0123456789ABO": false, "s0123456789ABu": false, "s0123456789A/C": false,
	} {
		if got := IsSLUID(s); got != ok {
			t.Errorf("%q is a SLUID: %v, want %v", s, got, ok)
		}
	}
}
