package top

import (
	"testing"
	"time"
)

// What a person types is a moment or an error, never a moment before the run.
func FuzzParseMoment(f *testing.F) {
	for _, s := range []string{"90", "1m30s", "12:30:05", "12:30", "2026-03-01T12:00:00Z", "-1s", "", "1e9h", "99999999999999999999", "24:00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseMoment(text, sampleStart, sampleStart.Add(time.Hour))
		if err != nil && at != 0 {
			t.Errorf("%q: %s with %v", text, at, err)
		}
		if again, err2 := parseMoment(" "+text+" ", sampleStart, sampleStart.Add(time.Hour)); err == nil && (err2 != nil || again != at) {
			t.Errorf("%q: %s, with blanks %s, %v", text, at, again, err2)
		}
	})
}

// A ledger of a foreign hand says of a CPU that it is the job's, is not, or nothing.
func FuzzCPUSet(f *testing.F) {
	for _, s := range []string{"0-3,8", "7", "", "3-1", "a", "0-", "-1", "0-99999999999", ",", "1,,2"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, list string, cpu int) {
		in, ok := cpuSet(list).has(cpu).Get()
		if in && (!ok || cpu < 0) {
			t.Errorf("CPU %d is in %q", cpu, list)
		}
		if ok && list == "" {
			t.Error("an empty list says something")
		}
	})
}

func TestCPUSet(t *testing.T) {
	for list, want := range map[cpuSet]string{"0-1,3": "yyny", "2": "nnyn", "": "????", "x": "????", "0-": "????"} {
		got := ""
		for cpu := range 4 {
			switch in, ok := list.has(cpu).Get(); {
			case !ok:
				got += "?"
			case in:
				got += "y"
			default:
				got += "n"
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", list, got, want)
		}
	}
}
