package sonar

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// read decodes everything: the records and the errors between them.
func read(data []byte) (records []Record, bad []error) {
	for rec, err := range Decode(bytes.NewReader(data)) {
		if err != nil {
			bad = append(bad, err)
			continue
		}
		records = append(records, rec)
	}
	return records, bad
}

// A good line without its newline, and the beginning of a good envelope.
const (
	goodLine     = "v=0.8.0,time=2024-01-01T00:00:00+00:00,host=h,user=u,cmd=c"
	goodEnvelope = `{"v":"0.13.0","time":"2024-01-01T00:00:00+00:00","host":"h",`
)

// malformed are inputs, how many records are good in each, and what is said of the first that is not.
var malformed = map[string]struct {
	text    string
	records int
	says    string
}{
	"a line of two":          {goodLine + ",job=x\n" + goodLine + "\n", 1, `line 1 (from byte 0): job: "x" is no unsigned integer`},
	"a fraction":             {goodLine + ",cputime_sec=5.0\n", 0, "cputime_sec"},
	"below zero":             {goodLine + ",pid=-1\n", 0, "pid"},
	"53 bits":                {goodLine + ",cpukib=4503599627370496\n", 0, "52 bits"},
	"not a number":           {goodLine + ",cpu%=NaN\n", 0, "cpu%"},
	"infinite":               {goodLine + ",gpu%=inf\n", 0, "gpu%"},
	"negative":               {goodLine + ",gpumem%=-1\n", 0, "gpumem%"},
	"bare quote":             {goodLine + ",x=a\"b\"\n", 0, "column 60: a quote"},
	"open quote":             {goodLine + ",\"x=a\n" + goodLine + "\n", 1, "unterminated"},
	"behind a quote":         {goodLine + ",\"x\"y\n", 0, "after a quoted field"},
	"control":                {goodLine + "\x01\n", 0, "control character"},
	"no utf-8":               {goodLine + "\xff\n", 0, "UTF-8"},
	"no newline":             {goodLine + "\n" + goodLine, 1, "line 2 (from byte 59): the file ends"},
	"no cmd":                 {"v=0.8.0,time=2024-01-01T00:00:00+00:00,host=h,user=u\n", 0, "no cmd"},
	"no version":             {"time=2024-01-01T00:00:00+00:00,host=h,user=u,cmd=c\n", 0, "no version"},
	"version":                {"v=x,time=2024-01-01T00:00:00+00:00,host=h,user=u,cmd=c\n", 0, "no version as"},
	"time without an offset": {"v=0.8.0,time=2024-01-01T00:00:00,host=h,user=u,cmd=c\n", 0, "ISO 8601"},
	"before 1970":            {"v=0.8.0,time=1903-01-01T00:00:00Z,host=h,user=u,cmd=c\n", 0, "1970"},
	"gpus":                   {goodLine + ",\"gpus=0,x\"\n", 0, "list of GPUs"},
	"gpu lists":              {goodLine + ",\"gpuinfo=fan%=1|2,cez=1\"\n", 0, "1 values, the attribute before it 2"},
	"load":                   {goodLine + ",load=0\n", 0, "does not start a base-45"},
	"6 columns":              {"2024-01-01T00:00:00.5+00:00,h,1,u,2,c\n", 0, "6 columns"},
	"bit vector":             {"2024-01-01T00:00:00.5+00:00,h,1,u,2,c,1,2,21\n", 0, "column 9 (gpus)"},
	"unknown fields":         {goodLine + ",gpufail=1,epoch=7,\"new=a,b\"\n", 1, ""},
	"blank lines":            {"\n" + goodLine + "\r\n\n", 1, ""},
	"text":                   {"hello\n", 0, "1 columns without names"},
	"json cut in a sample":   {goodEnvelope + `"samples":[{"user":"u","cmd":"c"},{"user":"u"`, 1, "samples: number 2: unexpected EOF"},
	"json with a bad sample": {goodEnvelope + `"samples":[{"user":"u","cmd":"c"},{"user":"u","cmd":"c","job":-1}]}`, 1, "number 2: job"},
	"json number":            {goodEnvelope + `"samples":[{"user":"u","cmd":"c","pid":1e3}]}`, 0, "unsigned integer"},
	"json without time":      {`{"v":"0.13.0","host":"h","samples":[{"user":"u","cmd":"c"}]}` + "\n" + goodEnvelope + `"samples":[{"user":"u","cmd":"c"}]}`, 1, "no time"},
	"json samples first":     {`{"samples":[{"user":"u","cmd":"c"}],` + goodEnvelope[1:len(goodEnvelope)-1] + "}", 1, ""},
	"json of no records":     {goodEnvelope + `"samples":[]}`, 0, ""},
	"json array":             {`{"v":"1.0.0"}[1]`, 0, "no time"},
	"json garbage":           {goodEnvelope + "x", 0, "invalid character"},
	"json nulls":             {goodEnvelope + `"load":null,"gpuinfo":null,"samples":[{"user":"u","cmd":"c","job":null}]}`, 1, ""},
	"json load":              {goodEnvelope + `"load":[1,-1],"samples":[]}`, 0, "load"},
	"json nested":            {goodEnvelope + `"x":{"y":[1,{}]},"samples":[{"user":"u","cmd":"c","z":{"job":1}}]}`, 1, ""},
	"json job without id":    {`{"v":"0.13.0","jobs":[{"JobID":"1"},{"User":"u"}]}`, 1, "number 2: no JobID"},
	"json deep":              {goodEnvelope + `"x":` + strings.Repeat("[", 20000), 0, "depth"},
	"nothing":                {"", 0, ""},
}

func TestMalformed(t *testing.T) {
	for name, tc := range malformed {
		t.Run(name, func(t *testing.T) {
			records, bad := read([]byte(tc.text))
			if len(records) != tc.records {
				t.Errorf("%d records, want %d", len(records), tc.records)
			}
			if (tc.says == "") != (len(bad) == 0) || tc.says != "" && !strings.Contains(bad[0].Error(), tc.says) {
				t.Errorf("%v, want %q", bad, tc.says)
			}
			for _, err := range bad {
				if at := (*Error)(nil); !errors.As(err, &at) {
					t.Errorf("%v has no position", err)
				}
			}
		})
	}
}

// TestTruncated: a file that was cut anywhere gives the whole records before the
// cut, and says that it was cut unless nothing can be missing.
func TestTruncated(t *testing.T) {
	for _, f := range archive(t, "testdata/canonical.txtar") {
		whole := all(t, f.Data)
		json := strings.HasSuffix(f.Name, ".json")
		for n := range f.Data {
			records, bad := read(f.Data[:n])
			lines := bytes.Count(f.Data[:n], []byte("\n"))
			switch {
			case len(records) > len(whole):
				t.Fatalf("%s cut at %d: %d records of %d", f.Name, n, len(records), len(whole))
			case len(bad) > 1 || len(bad) == 0 && len(records) < len(whole) && !json && n > 0 && f.Data[n-1] != '\n':
				t.Fatalf("%s cut at %d: %v", f.Name, n, bad)
			case !json && len(records) != lines:
				t.Fatalf("%s cut at %d: %d records of %d lines", f.Name, n, len(records), lines)
			}
		}
	}
}

// TestFlipped: no flipped bit makes more than one record of the lines bad.
func TestFlipped(t *testing.T) {
	for _, f := range archive(t, "testdata/canonical.txtar") {
		if strings.HasSuffix(f.Name, ".json") {
			continue
		}
		whole := len(all(t, f.Data))
		for n := range f.Data {
			for bit := range 8 {
				data := bytes.Clone(f.Data)
				data[n] ^= 1 << bit
				records, bad := read(data)
				if len(records)+len(bad) < whole-1 || len(records) < whole-2 {
					t.Fatalf("%s, bit %d of byte %d: %d records of %d, %v", f.Name, bit, n, len(records), whole, bad)
				}
			}
		}
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("disk on fire")
	const line = "v=0.8.0,time=2024-01-01T00:00:00+00:00,host=h,user=u,cmd=c\n"
	n := 0
	var last error
	for rec, err := range Decode(iotest.DataErrReader(&failing{text: line + line + "v=0", err: broken})) {
		if rec != nil {
			n++
		}
		last = err
	}
	if n != 2 || !errors.Is(last, broken) {
		t.Errorf("%d records and %v", n, last)
	}
}

type failing struct {
	text string
	err  error
}

func (f *failing) Read(b []byte) (int, error) {
	n := copy(b, f.text)
	f.text = f.text[n:]
	if f.text == "" {
		return n, f.err
	}
	return n, nil
}

// TestAllocation: what is made for inputs that promise much is bounded by their size.
func TestAllocation(t *testing.T) {
	const size = 1 << 17
	line := "v=0.13.0,time=2024-01-01T00:00:00+00:00,host=h,user=u,cmd=c,"
	envelope := `{"v":"0.13.0","time":"2024-01-01T00:00:00+00:00","host":"h",`
	fill := func(head, unit, tail string) []byte {
		return []byte(head + strings.Repeat(unit, size/len(unit)) + tail)
	}
	for name, data := range map[string][]byte{
		"commas":          fill(line, ",", "\n"),
		"quotes":          fill(line+`"`, `"`, "\n"),
		"no newline":      fill("", "x", ""),
		"newlines":        fill("", "\n", ""),
		"lines":           fill("", "a\n", ""),
		"gpu lists":       fill(line+"gpuinfo=fan%=", "|", "\n"),
		"cards":           fill("timestamp=2024-01-01T00:00:00+00:00,hostname=h,\"gpu_info=", ",", "\"\n"),
		"gpus":            fill(line+`"gpus=`, "0,", "0\"\n"),
		"load":            fill(line+"load=", "(", "\n"),
		"json gpuinfo":    fill(envelope+`"gpuinfo":[`, "{},", "{}]}"),
		"json gpu_info":   fill(envelope+`"gpu_info":[`, "{},", "{}]}"),
		"json samples":    fill(envelope+`"samples":[`, `{"user":"u","cmd":"c"},`, "{}]}"),
		"json jobs":       fill(envelope+`"jobs":[`, `{"JobID":"1"},`, "{}]}"),
		"json load":       fill(envelope+`"load":[`, "0,", "0]}"),
		"json fields":     fill("{", `"":0,`, `"":0}`),
		"json objects":    fill("", "{}", ""),
		"json other keys": fill(envelope+`"samples":[{`, `"a":0,`, `"user":"u"}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			read(data)
			runtime.ReadMemStats(&after)
			if perByte := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(data)); perByte > 500 {
				t.Errorf("%.0f bytes are allocated for each of input", perByte)
			}
		})
	}
}

func TestCannotBeWritten(t *testing.T) {
	good := Sample{Version: Version, Time: time.Unix(1, 0), Host: "h", User: "u", Cmd: "c"}
	for name, change := range map[string]func(*Sample){
		"no host":    func(s *Sample) { s.Host = "" },
		"no cmd":     func(s *Sample) { s.Cmd = "" },
		"no time":    func(s *Sample) { s.Time = time.Time{} },
		"old time":   func(s *Sample) { s.Time = time.Unix(-1, 0) },
		"version":    func(s *Sample) { s.Version = "new" },
		"NaN":        func(s *Sample) { s.CPUPct = math.NaN() },
		"infinite":   func(s *Sample) { s.GPUPct = math.Inf(1) },
		"below zero": func(s *Sample) { s.GPUMemPct = -1 },
		"53 bits":    func(s *Sample) { s.CPUKiB = 1 << 52 },
		"gpu":        func(s *Sample) { s.GPUInfo = []GPU{{TempC: 1 << 60}} },
		"gpus":       func(s *Sample) { s.GPUInfo = make([]GPU, maxGPUs+1) },
	} {
		s := good
		change(&s)
		if out, err := s.AppendCSV([]byte("kept")); err == nil || string(out) != "kept" {
			t.Errorf("%s: %q, %v", name, out, err)
		}
		if out, err := AppendJSON([]byte("kept"), &s, []Sample{s}); err == nil || string(out) != "kept" {
			t.Errorf("JSON, %s: %q, %v", name, out, err)
		}
	}
}

// TestCleaned: what a process calls itself never breaks a file.
func TestCleaned(t *testing.T) {
	s := Sample{Version: Version, Time: time.Unix(1, 0), Host: "h", User: "u", Cmd: "a\nb\xff\"c,\x7f", GPUInfo: []GPU{{Mode: "x|y\n"}}}
	line, err := s.AppendCSV(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := all(t, line)[0].(*Sample)
	if !ok || got.Cmd != "a\uFFFDb\uFFFD\"c,\uFFFD" || got.GPUInfo[0].Mode != "x/y\uFFFD" {
		t.Errorf("%+v of %s", got, line)
	}
}

// A list of GPUs is read like the text with the same GPUs. Any other value is an error.
func TestGPUsAsList(t *testing.T) {
	const envelope = `{"v":"0.13.0","time":"2024-01-01T00:00:00+00:00","host":"h","samples":[{"user":"u","cmd":"c","pid":1,"gpus":%s}]}`
	const record = `{"v":"0.13.0","time":"2024-01-01T00:00:00+00:00","host":"h","user":"u","cmd":"c","pid":1,"gpus":%s}`
	for _, form := range []string{envelope, record} {
		for list, want := range map[string]string{`[0,1]`: "0,1", `[7]`: "7", `[]`: "none", `null`: "none", `"0,1"`: "0,1", `3`: "3"} {
			records, err := read([]byte(fmt.Sprintf(form, list)))
			if err != nil || len(records) != 1 || records[0].(*Sample).GPUs.String() != want {
				t.Errorf("%s: %v, %v", list, records, err)
			}
		}
		for _, list := range []string{`[0,"x"]`, `[-1]`, `[0.5]`, `true`, `{"0":1}`, `[[0]]`} {
			if records, err := read([]byte(fmt.Sprintf(form, list))); err == nil || len(records) != 0 {
				t.Errorf("%s: %v, %v", list, records, err)
			}
		}
	}
}
