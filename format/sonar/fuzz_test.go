package sonar

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func seeds(f *testing.F) {
	for _, file := range append(archive(f, "testdata/canonical.txtar"), archive(f, "testdata/new.txtar")...) {
		f.Add(file.Data)
		for line := range bytes.Lines(file.Data) {
			f.Add(line)
		}
	}
}

// FuzzDecode: whatever is read can be written, and is the same when it is read again.
func FuzzDecode(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		records, _ := read(data)
		if len(records) > len(data) {
			t.Fatalf("%d records of %d bytes", len(records), len(data))
		}
		for _, rec := range records {
			for _, json := range []bool{false, true} {
				if s, ok := rec.(*Sample); ok && (len(s.Load) > 0 && s.PID == 0 || json && s.Cores+s.MemTotalKiB > 0) {
					continue // what a version does not have is not written
				}
				once, err := encodeAll([]Record{rec}, json)
				if err != nil {
					if s, ok := rec.(*Sample); ok && len(s.GPUs.Indices) > 0 { // beyond the bit vector of 0.6
						continue
					}
					t.Fatalf("%+v: %v", rec, err)
				}
				again := all(t, once)
				twice, err := encodeAll(again, json)
				if err != nil || !bytes.Equal(once, twice) {
					t.Fatalf("%v\n%s%s", err, once, twice)
				}
			}
		}
	})
}

// FuzzFree: a line that can be split is made of the same fields when it is joined.
func FuzzFree(f *testing.F) {
	f.Add(`a="x=1,y=""v,w""",b=z=3`)
	f.Add(`"a=x=1,""y=v,w""",b=z=3`)
	f.Add("v=0.7.0,time=2023-08-10T11:09:41+02:00,host=somehost,cores=8,gpus=none")
	f.Add(`"gpuinfo=fan%=27|28|28,perf=P8|P8|P8"`)
	f.Add("a=,,=,b")
	f.Fuzz(func(t *testing.T, line string) {
		fields, err := SplitFree(line)
		if err != nil {
			return
		}
		for i := range fields {
			if fields[i].Name == "" {
				return // the name cannot be distinguished from the value
			}
		}
		again, err := SplitFree(string(appendFree(nil, fields)))
		if d := cmp.Diff(fields, again); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
	})
}

// FuzzBase45: what decodes encodes to the same value.
func FuzzBase45(f *testing.F) {
	for _, s := range []string{"&J", "(", ")(t*1b", string(AppendBase45(nil, 1<<64-1, 0, 44, 45))} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		numbers, err := DecodeBase45(text)
		if err != nil {
			return
		}
		again, err := DecodeBase45(string(AppendBase45(nil, numbers...)))
		if d := cmp.Diff(numbers, again); d != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
		if load, err := decodeLoad(text); err == nil && len(load) > 0 {
			if again, err := decodeLoad(string(appendLoad(nil, load))); err != nil || !cmp.Equal(load, again) {
				t.Fatalf("%v came back as %v, %v", load, again, err)
			}
		}
	})
}

// appendFree appends the fields as one line of free CSV without its newline.
func appendFree(dst []byte, fields []Field) []byte {
	for i, f := range fields {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendElement(dst, f.Name+"="+f.Text)
	}
	return dst
}
