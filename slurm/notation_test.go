package slurm

import "testing"

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
