package ftdc

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// boundaries returns where the documents of a whole file begin, and its end.
func boundaries(t *testing.T, file []byte) map[int64]bool {
	t.Helper()
	at := map[int64]bool{0: true}
	dec := NewDecoder(bytes.NewReader(file))
	for {
		_, err := dec.Next()
		at[dec.Offset()] = true
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range file { // a schema ends in the only newlines of these files
		if file[i] == '\n' {
			at[int64(i+1)] = true
		}
	}
	return at
}

// same compares the data before a place of damage.
func same(got, want []FlatDatum) bool {
	return len(got) <= len(want) && (len(got) == 0 || reflect.DeepEqual(got, want[:len(got)]))
}

func TestEveryTruncation(t *testing.T) {
	file := files(t)["page"]
	whole, err := parse(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	at := boundaries(t, file)
	ends := []int64{}
	dec := NewDecoder(bytes.NewReader(file))
	for range whole {
		if _, err := dec.Next(); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, dec.Offset())
	}
	for cut := range int64(len(file)) {
		got, err := parse(bytes.NewReader(file[:cut]))
		want := 0
		for want < len(ends) && ends[want] <= cut {
			want++
		}
		if len(got) != want || !same(got, whole) {
			t.Errorf("cut at %d: %d data, want %d", cut, len(got), want)
		}
		var syntax *SyntaxError
		switch {
		case at[cut]:
			if err != nil {
				t.Errorf("cut between two documents at %d: %v", cut, err)
			}
		case !errors.As(err, &syntax) || !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("cut at %d: %v", cut, err)
		case !at[syntax.Offset] || syntax.Offset >= cut:
			t.Errorf("cut at %d: the error names byte %d", cut, syntax.Offset)
		}
	}
}

func TestEveryBitFlip(t *testing.T) {
	file := files(t)["page"]
	whole, err := parse(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for bit := range len(file) * 8 {
		bad := bytes.Clone(file)
		bad[bit/8] ^= 1 << (bit % 8)
		got, err := parse(bytes.NewReader(bad))
		// What lies before the damage is as it was.
		dec, intact := NewDecoder(bytes.NewReader(file)), 0
		for ; ; intact++ {
			if _, err := dec.Next(); err != nil || dec.Offset() > int64(bit/8) {
				break
			}
		}
		if len(got) < intact || !same(got[:intact], whole) {
			t.Errorf("bit %d: %d data before it are not as they were: %v, %v", bit, intact, got, err)
		}
		var syntax *SyntaxError
		if err != nil && !errors.As(err, &syntax) {
			t.Errorf("bit %d: an error without a place: %v", bit, err)
		}
		if err != nil {
			refused++
		}
	}
	if refused < len(file) {
		t.Errorf("of %d flipped bits %d were noticed", len(file)*8, refused)
	}
}

func TestMalformed(t *testing.T) {
	const schema, datum = `01 "[\"a.b\"]\n" `, `02 0000000000000001 3f800000 `
	for _, c := range []struct {
		file   string
		data   int
		offset int64
		says   string
	}{
		{`"text"`, 0, 0, "no schema yet"},
		{`"comma,separated\n"`, 0, 0, "no schema yet"},
		{schema + datum + `03 00`, 1, 22, "not a JSON array of strings"},
		{schema + datum + `01 "[\"a.b\"]\r\n"`, 1, 22, "CR LF"},
		{schema + datum + `01 "[\"nodot\"]\n"`, 1, 22, `metric "nodot" of its schema: the name of a metric needs a dot`},
		{schema + datum + `01 "[\"a.b\",3]\n"`, 1, 22, "not a JSON array of strings"},
		{schema + datum + `01 "{}\n"`, 1, 22, "not a JSON array of strings"},
		{schema + datum + `01 "[\"a.b\"\n"`, 1, 22, "cut off at byte 30"},
		{schema + datum + `01 "[\"a.b\"\n" ` + datum, 1, 22, "not a JSON array of strings"},
		{schema + datum + `01 "[\"a.\nb\"]\n"`, 1, 22, "not a JSON array of strings"},
		{schema + datum + `01 "[\"a.b\"] []\n"`, 1, 22, "not a JSON array of strings"},
		{schema + datum + `01 "[\"a." ff "\"]\n"`, 1, 22, "not UTF-8"},
		{schema + datum + `01 "[\"a.b\"]"`, 1, 22, "cut off at byte 30"},
		{schema + datum + `00 0000000000000000`, 1, 22, "0 ns after 1 ns: its time is before"},
		{schema + datum + `00 00004e94914f0002`, 1, 22, "or more than a day later"},
		{schema + datum + schema + `00 0000000000000000`, 1, 31, "its time is before"},
	} {
		got, err := parse(bytes.NewReader(assemble(t, c.file)))
		var syntax *SyntaxError
		if len(got) != c.data || !errors.As(err, &syntax) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d data, %v", c.file, len(got), err)
		} else if syntax.Offset != c.offset {
			t.Errorf("%s: at byte %d, want %d", c.file, syntax.Offset, c.offset)
		}
	}
}

// A reader accepts what the format does not define: unused bits of a schema and of diff bits, and white space in a
// schema's JSON.
func TestLenient(t *testing.T) {
	want, err := parse(bytes.NewReader(assemble(t, `01 "[\"a.b\",\"a.c\"]\n" 02 0000000000000001 3f800000 04 0000000000000002 40000000`)))
	if err != nil || len(want) != 2 {
		t.Fatal(want, err)
	}
	for name, text := range map[string]string{
		"bits of the schema's byte":  `fd "[\"a.b\",\"a.c\"]\n" 02 0000000000000001 3f800000 04 0000000000000002 40000000`,
		"a later schema's byte":      `01 "[\"a.x\"]\n" 81 "[\"a.b\",\"a.c\"]\n" 02 0000000000000001 3f800000 04 0000000000000002 40000000`,
		"bits after the last metric": `01 "[\"a.b\",\"a.c\"]\n" fa 0000000000000001 3f800000 0c 0000000000000002 40000000`,
		"blanks":                     `01 " [ \"a.b\" ,\t\"a.c\" ] \n" 02 0000000000000001 3f800000 04 0000000000000002 40000000`,
		"newlines":                   `01 "[\n  \"a.b\",\r\n  \"a.c\"\n]\n" 02 0000000000000001 3f800000 04 0000000000000002 40000000`,
	} {
		got, err := parse(bytes.NewReader(assemble(t, text)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// With the option for it, a file in which the clock was set can be read past that place.
func TestAnyTime(t *testing.T) {
	file := assemble(t, `01 "[\"a.b\"]\n" 02 0000000000000005 3f800000 00 0000000000000001 00 7000000000000000 00 7000000000000001`)
	dec := NewDecoder(bytes.NewReader(file))
	dec.AnyTime = true
	var times []int64
	for {
		at, err := dec.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, at)
	}
	if want := []int64{5, 1, 0x7000000000000000, 0x7000000000000001}; !reflect.DeepEqual(times, want) {
		t.Errorf("times %v, want %v", times, want)
	}
}

func TestReaderFails(t *testing.T) {
	file := files(t)["page"]
	broken := errors.New("the disk is broken")
	got, err := parse(io.MultiReader(bytes.NewReader(file[:len(file)-1]), iotest.ErrReader(broken)))
	var syntax *SyntaxError
	if len(got) != 2 || !errors.Is(err, broken) || errors.As(err, &syntax) {
		t.Errorf("%d data, %v", len(got), err)
	}
	if _, err = parse(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err = parse(stuck{}); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
}

// stuck reads nothing and says nothing.
type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// allocated is what f takes from the heap, in bytes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// No field of a file says how much to allocate: a few bytes cannot ask for many.
func TestMemoryIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	long := []byte{1, '['}
	for i := range 50_000 {
		if i > 0 {
			long = append(long, ',')
		}
		long = append(long, `"."`...)
	}
	long = append(long, "]\n"...)
	for range 20 { // as much as the format gives: nothing changes but one bit of 50,000
		doc := make([]byte, bitBytes(50_000)+8+4)
		doc[1+r.IntN(6000)] = 1
		long = append(long, doc...)
	}
	for _, file := range [][]byte{long, long[:100_000], bytes.Repeat([]byte{1}, 1<<20), append([]byte("\x01[\"a.b\"]\n"), make([]byte, 1<<20)...)} {
		n := allocated(func() { _, _ = parse(bytes.NewReader(file)) })
		if limit := uint64(len(file))*400 + 1<<20; n > limit {
			t.Errorf("%d bytes allocated for a file of %d", n, len(file))
		}
		n = allocated(func() {
			dec := NewDecoder(bytes.NewReader(file))
			for {
				if _, err := dec.Next(); err != nil {
					return
				}
			}
		})
		if limit := uint64(len(file))*40 + 1<<18; n > limit {
			t.Errorf("%d bytes allocated to go through a file of %d", n, len(file))
		}
	}
}

// viam's writer prints null for a schema without metrics. What follows is read.
func TestSchemaNull(t *testing.T) {
	metrics := "\x00" + strings.Repeat("\x00", 7) + "\x09"
	file := "\x01null\n" + metrics + "\x01[\"a.b\"]\n\x02" + strings.Repeat("\x00", 7) + "\x0a\x3f\x80\x00\x00" + "\x01 null \n" + strings.Replace(metrics, "\x09", "\x0b", 1)
	got, err := parse(strings.NewReader(file))
	if err != nil || len(got) != 3 || got[0].Time != 9 || len(got[0].Readings) != 0 || got[1].Readings[0].Value != 1 || got[2].Time != 11 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"\x01nul\n", "\x01nullnull\n", "\x01nullx\n", "\x01null[]\n", "\x01n", "\x01ull\n"} {
		if _, err := parse(strings.NewReader(bad + metrics)); err == nil {
			t.Errorf("%q is a schema", bad)
		}
	}
}
