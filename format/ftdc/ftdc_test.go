package ftdc

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rogpeppe/go-internal/txtar"
)

// files returns the files of testdata/files.txtar by name.
func files(t testing.TB) map[string][]byte {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/files.txtar")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, f := range archive.Files {
		all[f.Name] = assemble(t, string(f.Data))
	}
	if len(all) < 8 {
		t.Fatalf("%d files in the archive", len(all))
	}
	return all
}

// assemble makes the bytes that a listing of quoted text and hexadecimal digits says.
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	var out []byte
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		if text[0] == '"' {
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			s, _ := strconv.Unquote(quoted)
			out, text = append(out, s...), text[len(quoted):]
			continue
		}
		word := text
		if i := strings.IndexAny(text, " \n"); i >= 0 {
			word = text[:i]
		}
		b, err := hex.DecodeString(word)
		if err != nil {
			t.Fatal(err)
		}
		out, text = append(out, b...), text[len(word):]
	}
	return out
}

func encode(t testing.TB, data []FlatDatum) []byte {
	t.Helper()
	var out bytes.Buffer
	enc := NewEncoder(&out)
	for i := range data {
		if err := enc.EncodeDatum(&data[i]); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// The page's own example, in both directions, from what it says in words.
func TestPage(t *testing.T) {
	data := []FlatDatum{
		{123, []Reading{{"motor.powerPct", 0.2}, {"motor.pos", 5000}, {"gps.lat", 40.7128}, {"gps.long", -74.0060}}},
		{124, []Reading{{"motor.powerPct", 0.2}, {"motor.pos", 5001}, {"gps.lat", 40.7128}, {"gps.long", -74.0061}}},
		{125, []Reading{{"gps.lat", 40.7128}, {"gps.long", -74.0061}}},
	}
	want := files(t)["page"]
	if got := encode(t, data); !bytes.Equal(got, want) {
		t.Errorf("encoded:\n%swant:\n%s", hex.Dump(got), hex.Dump(want))
	}
	got, err := parse(bytes.NewReader(want))
	if err != nil || !reflect.DeepEqual(got, data) {
		t.Errorf("decoded: %v, %v", got, err)
	}
	// The page writes its schema with a blank after each comma.
	spaced := bytes.ReplaceAll(want, []byte(`","`), []byte(`", "`))
	if got, err = parse(bytes.NewReader(spaced)); err != nil || !reflect.DeepEqual(got, data) {
		t.Errorf("decoded with blanks in the schema: %v, %v", got, err)
	}
	if at := got[0].ConvertedTime().Format("2006-01-02T15:04:05.999999999Z07:00"); at != "1970-01-01T00:00:00.000000123Z" {
		t.Errorf("123 ns after the epoch is %s", at)
	}
}

// Decoding and encoding a canonical file gives the file, in whatever pieces it comes.
func TestCanonicalFiles(t *testing.T) {
	for name, file := range files(t) {
		for piece, r := range map[string]io.Reader{"whole": bytes.NewReader(file), "by the byte": iotest.OneByteReader(bytes.NewReader(file)), "data and EOF at once": iotest.DataErrReader(bytes.NewReader(file))} {
			if got := recode(t, r); !bytes.Equal(got, file) {
				t.Errorf("%s, %s: encoded again it is\n%swant:\n%s", name, piece, hex.Dump(got), hex.Dump(file))
			}
		}
	}
}

// recode decodes and encodes, schema by schema and datum by datum.
func recode(t *testing.T, r io.Reader) []byte {
	t.Helper()
	var out bytes.Buffer
	dec, enc := NewDecoder(r), NewEncoder(&out)
	schemas := 0
	for {
		now, err := dec.Next()
		for ; schemas < dec.Schemas(); schemas++ {
			if err := enc.schema(dec.Names()); err != nil {
				t.Fatal(err)
			}
		}
		if err == io.EOF {
			return out.Bytes()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := enc.encode(now, dec.Values()); err != nil {
			t.Fatal(err)
		}
	}
}

// plain writes a file as the page's words say, without any of the Encoder's care.
func plain(data []FlatDatum) []byte {
	var out []byte
	var names string
	prev := map[int]float32{}
	for _, d := range data {
		var quoted []string
		for _, r := range d.Readings {
			quoted = append(quoted, strconv.Quote(r.MetricName))
		}
		if s := "[" + strings.Join(quoted, ",") + "]\n"; s != names {
			names, prev = s, map[int]float32{}
			out = append(append(out, 1), s...)
		}
		bits := make([]byte, 1+len(d.Readings)/8)
		var values []byte
		for i, r := range d.Readings {
			v := r.Value
			if math.Abs(float64(v-prev[i])) > 1e-9 {
				bits[(i+1)/8] |= 1 << ((i + 1) % 8)
				u := math.Float32bits(r.Value)
				values = append(values, byte(u>>24), byte(u>>16), byte(u>>8), byte(u))
			}
			prev[i] = v
		}
		out = append(out, bits...)
		for shift := 56; shift >= 0; shift -= 8 {
			out = append(out, byte(d.Time>>shift))
		}
		out = append(out, values...)
	}
	return out
}

// random makes data with many constant values and a few changes of the schema.
func random(r *rand.Rand) []FlatDatum {
	var data []FlatDatum
	now := r.Int64N(1 << 60)
	var readings []Reading
	for range r.IntN(30) {
		if readings == nil || r.IntN(8) == 0 {
			readings = nil
			for i := range r.IntN(70) {
				readings = append(readings, Reading{fmt.Sprintf("part%d.m%d", r.IntN(3), i), 0})
			}
		}
		readings = append([]Reading{}, readings...)
		for i := range readings {
			switch r.IntN(6) {
			case 0:
				readings[i].Value = math.Float32frombits(r.Uint32())
			case 1:
				readings[i].Value = float32(r.IntN(1000))
			}
			if v := readings[i].Value; v != v || math.Abs(float64(v)) < 1e-3 {
				readings[i].Value = 0
			}
		}
		now += r.Int64N(maxStep)
		data = append(data, FlatDatum{now, readings})
	}
	return data
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		data := random(r)
		file := encode(t, data)
		if want := plain(data); !bytes.Equal(file, want) {
			t.Fatalf("case %d: encoded:\n%swant:\n%s", n, hex.Dump(file), hex.Dump(want))
		}
		got, err := parse(bytes.NewReader(file))
		if err != nil || !reflect.DeepEqual(got, data) {
			t.Fatalf("case %d: %v\ngot  %v\nwant %v", n, err, got, data)
		}
	}
}

// Small steps: the reference for a change is the reading before, as other writers have it.
func TestEpsilon(t *testing.T) {
	var data []FlatDatum
	for i, v := range []float32{0, 0.9e-9, 1.8e-9, 1.9e-9, 3e-9} {
		data = append(data, FlatDatum{int64(i), []Reading{{"a.b", v}}})
	}
	want := assemble(t, `01 "[\"a.b\"]\n" 00 0000000000000000 00 0000000000000001 00 0000000000000002 00 0000000000000003
		02 0000000000000004 314e288f`)
	if got := encode(t, data); !bytes.Equal(got, want) || !bytes.Equal(got, plain(data)) {
		t.Errorf("encoded:\n%swant:\n%s", hex.Dump(got), hex.Dump(want))
	}
}

// What was not read is not there.
func TestNaN(t *testing.T) {
	nan := float32(math.NaN())
	data, err := parse(bytes.NewReader(encode(t, []FlatDatum{{1, []Reading{{"a.b", 1}, {"a.c", nan}}}, {2, []Reading{{"a.b", 1}, {"a.c", 2}}}})))
	want := []FlatDatum{{1, []Reading{{"a.b", 1}}}, {2, []Reading{{"a.b", 1}, {"a.c", 2}}}}
	if err != nil || !reflect.DeepEqual(data, want) {
		t.Errorf("got %v, %v", data, err)
	}
}

func TestEncoderRefuses(t *testing.T) {
	var out bytes.Buffer
	enc := NewEncoder(&out)
	datum := func(time int64, name string) *FlatDatum { return &FlatDatum{time, []Reading{{name, 1}}} }
	for _, name := range []string{"", "nodot", "a.\xff"} {
		if err := enc.EncodeDatum(datum(1, name)); err == nil || out.Len() > 0 {
			t.Errorf("name %q: %v, and %d bytes were written", name, err, out.Len())
		}
	}
	if err := enc.EncodeDatum(datum(1e15, "a.b")); err != nil {
		t.Fatal(err)
	}
	size := out.Len()
	for _, time := range []int64{1e15 - 1, 1e15 + maxStep + 1, math.MaxInt64, math.MinInt64} {
		for _, name := range []string{"a.b", "c.d"} {
			if err := enc.EncodeDatum(datum(time, name)); !errors.Is(err, ErrTime) {
				t.Errorf("%s, %d ns after 1e15: %v", name, time, err)
			}
		}
	}
	if out.Len() != size {
		t.Errorf("%d bytes were written for what was refused", out.Len()-size)
	}
	if err := enc.EncodeDatum(datum(1e15+maxStep, "a.b")); err != nil {
		t.Errorf("a day later: %v", err)
	}
}

func TestNoAllocationPerDatum(t *testing.T) {
	d := FlatDatum{}
	for i := range 300 {
		d.Readings = append(d.Readings, Reading{fmt.Sprintf("part.metric%d", i), 0})
	}
	var file bytes.Buffer
	file.Grow(10 << 20)
	enc := NewEncoder(&file)
	step := func() {
		d.Time += 1e9
		for i := 0; i < len(d.Readings); i += 3 {
			d.Readings[i].Value++
		}
		if err := enc.EncodeDatum(&d); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if n := testing.AllocsPerRun(1000, step); n != 0 {
		t.Errorf("%v allocations to encode a datum", n)
	}
	dec := NewDecoder(&file)
	next := func() {
		if _, err := dec.Next(); err != nil {
			t.Fatal(err)
		}
	}
	next()
	if n := testing.AllocsPerRun(1000, next); n != 0 {
		t.Errorf("%v allocations to decode a datum", n)
	}
}

// parse reads a whole file. If the file is cut or damaged, it returns the datums before that place,
// and a *SyntaxError with the place. A datum without changes shares the readings of the previous one.
func parse(r io.Reader) ([]FlatDatum, error) {
	dec := NewDecoder(r)
	var all []FlatDatum
	var before []float32
	schemas := 0
	for {
		t, err := dec.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		isNew := dec.Schemas() != schemas
		schemas = dec.Schemas()
		d := FlatDatum{Time: t}
		if isNew || !slices.EqualFunc(before, dec.Values(), sameBits) {
			before = slices.Clone(dec.Values())
			d.Readings = make([]Reading, len(before))
			for i, name := range dec.Names() {
				d.Readings[i] = Reading{name, before[i]}
			}
		} else {
			d.Readings = all[len(all)-1].Readings
		}
		all = append(all, d)
	}
}

// sameBits distinguishes signed zeros and NaNs.
func sameBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
