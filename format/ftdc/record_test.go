package ftdc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stats is a Statser with fixed values.
type stats struct{ next func() any }

func (s stats) Stats() any { return s.next() }

type motor struct {
	PowerPct float64
	Pos      int
	hidden   int
	On       bool
	Name     string
	Sensor   *sensor
	Extra    any
	ByAxis   map[string]axis
	Counts   [2]int
}

type sensor struct{ Temp uint16 }

type axis struct{ Steps int8 }

func TestFlatten(t *testing.T) {
	full := motor{
		PowerPct: 0.2, Pos: -5000, hidden: 3, On: true, Name: "left", Sensor: &sensor{40}, Extra: &sensor{7},
		ByAxis: map[string]axis{"y": {2}, "x": {1}, "z": {3}},
	}
	want := []Reading{
		{"m.PowerPct", 0.2}, {"m.Pos", -5000}, {"m.On", 1}, {"m.Sensor.Temp", 40}, {"m.Extra.Temp", 7},
		{"m.ByAxis.x.Steps", 1}, {"m.ByAxis.y.Steps", 2}, {"m.ByAxis.z.Steps", 3},
	}
	for _, v := range []any{full, &full} {
		if got := flatten(nil, "m", reflect.ValueOf(v)); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	}
	want = []Reading{{"m.PowerPct", 0}, {"m.Pos", 0}, {"m.On", 0}}
	if got := flatten(nil, "m", reflect.ValueOf(motor{})); !reflect.DeepEqual(got, want) {
		t.Errorf("nil pointers: got %v, want %v", got, want)
	}
	for _, v := range []any{nil, "text", make(chan int), map[int]int{1: 2}, []int{3}} {
		if got := flatten(nil, "m", reflect.ValueOf(v)); len(got) != 0 {
			t.Errorf("%v: %v", v, got)
		}
	}
}

func TestRecord(t *testing.T) {
	var file bytes.Buffer
	var begin time.Time
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		begin = time.Now()
		f := NewWithWriter(&file, slog.New(slog.NewTextHandler(&log, nil)))
		n := 0
		f.Add("motor", stats{func() any { n++; return struct{ Pos int }{n} }})
		f.Add("motor", stats{func() any { return struct{ Wrong int }{n} }})
		f.Start()
		time.Sleep(2500 * time.Millisecond)
		calls := 0
		f.Add("gps", stats{func() any {
			if calls++; calls == 2 {
				return struct{ Lat float64 }{math.NaN()}
			}
			return struct{ Lat float64 }{40}
		}})
		time.Sleep(2 * time.Second)
		f.Remove("motor")
		time.Sleep(time.Second)
		f.StopAndJoin(context.Background())
		time.Sleep(5 * time.Second)
	})
	got, err := Parse(&file)
	if err != nil {
		t.Fatal(err)
	}
	at := func(s int64) int64 { return begin.UnixNano() + s*1e9 }
	want := []FlatDatum{
		{at(1), []Reading{{"motor.Pos", 1}}}, {at(2), []Reading{{"motor.Pos", 2}}},
		{at(3), []Reading{{"motor.Pos", 3}, {"gps.Lat", 40}}}, {at(4), []Reading{{"motor.Pos", 4}}},
		{at(5), []Reading{{"gps.Lat", 40}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || !strings.Contains(log.String(), "name=motor") {
		t.Errorf("logged: %s", log.String())
	}
}

// full takes room bytes and then is a full disk.
type full struct{ room int }

func (w *full) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

func TestRecordWithoutRoom(t *testing.T) {
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		f := NewWithWriter(&full{20}, slog.New(slog.NewTextHandler(&log, nil)))
		f.Add("a", stats{func() any { return struct{ B int }{time.Now().Second()} }})
		f.Start()
		time.Sleep(20 * time.Second)
		f.StopAndJoin(context.Background())
	})
	if n := strings.Count(log.String(), "no space left"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}

func listFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+fileSuffix))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(files)
	return files
}

func TestLogRotates(t *testing.T) {
	dir := DefaultDirectory(t.TempDir(), "arm")
	if !strings.HasSuffix(dir, "/diagnostics.ftdc/arm") {
		t.Error(dir)
	}
	l := NewLog(dir, "rt", LogOptions{FileBytes: 200, Files: 3})
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano()
	for i := range int64(200) {
		d := FlatDatum{start + i*1e9, []Reading{{"a.b", float32(i + 1)}, {"a.c", 1}}}
		if err := l.Write(&d); err != nil {
			t.Fatal(err)
		}
		for n, path := range listFiles(t, dir) { // so that their ages differ
			at := time.Unix(1e9+int64(n), 0)
			if path != l.f.Name() {
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	paths := listFiles(t, dir)
	if len(paths) != 3 {
		t.Fatalf("files: %v", paths)
	}
	var all []FlatDatum
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 200+40 {
			t.Errorf("%s has %d bytes", path, len(text))
		}
		data, err := Parse(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	if len(all) < 20 || all[len(all)-1].Time != start+199e9 {
		t.Fatalf("%d data, the last of %v", len(all), all[len(all)-1].ConvertedTime())
	}
	for i := range all[1:] {
		if all[i+1].Time-all[i].Time != 1e9 {
			t.Errorf("a gap after %v", all[i].ConvertedTime())
		}
	}
}

// A step of the clock begins a new file, so that every file is read to its end.
func TestLogAfterTheClockWasSet(t *testing.T) {
	dir := t.TempDir()
	l := NewLog(dir, "rt", LogOptions{})
	for _, at := range []int64{100e9, 101e9, 50e9, 51e9, 51e9 + 2*maxStep, 50e9} {
		if err := l.Write(&FlatDatum{at, []Reading{{"a.b", float32(at)}}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range listFiles(t, dir) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := Parse(bytes.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		n += len(data)
	}
	if n != 6 {
		t.Errorf("%d of 6 data", n)
	}
}

// /dev/full takes no byte: files with data stay where no new one can be begun.
func TestLogOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	l := NewLog(dir, "rt", LogOptions{Files: 2})
	d := FlatDatum{1e9, []Reading{{"a.b", 1}}}
	if err := l.Write(&d); err != nil {
		t.Fatal(err)
	}
	disk, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	good := l.f
	l.f = disk
	if err := l.Write(&d); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("write to a full disk: %v", err)
	}
	if err := good.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(&d); err != nil { // the disk takes data again
		t.Fatal(err)
	}
	if got := listFiles(t, dir); len(got) != 2 {
		t.Errorf("files: %v", got)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestNewRecordsIntoItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ftdc")
	synctest.Test(t, func(t *testing.T) {
		f := New(dir, slog.New(slog.DiscardHandler))
		f.Add("a", stats{func() any { return struct{ B int }{1} }})
		f.Start()
		time.Sleep(3500 * time.Millisecond)
		f.StopAndJoin(context.Background())
	})
	paths := listFiles(t, dir)
	if len(paths) != 1 {
		t.Fatalf("files: %v", paths)
	}
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	if data, err := Parse(bytes.NewReader(text)); err != nil || len(data) != 3 {
		t.Errorf("%d data, %v", len(data), err)
	}
}
