package resourcetracker

import (
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/samples"
)

func readAll(t *testing.T, text string) (samples.Dialect, []samples.Row, error) {
	t.Helper()
	dialect, rows, err := samples.ReadCSV(strings.NewReader(text))
	if err != nil {
		return dialect, nil, err
	}
	var out []samples.Row
	for row, err := range rows {
		if err != nil {
			return dialect, out, err
		}
		out = append(out, row)
	}
	return dialect, out, nil
}

func TestReadCSV(t *testing.T) {
	dialect, rows, err := readAll(t, CSVHeader+fullRow+"7"+strings.Repeat(",", 20)+"\n8"+strings.Repeat(",", 20)+"NaN\n")
	if err != nil || dialect != samples.Spec || len(rows) != 3 {
		t.Fatalf("dialect %d, %d rows, %v", dialect, len(rows), err)
	}
	want := fullScalars()
	want.Seconds = 0
	want.CPUUsage = f(1.2346)                                             // 4 decimals
	want.SpaceTotal, want.SpaceAvailable = u(1_000_204_886_000), u(400e9) // kB
	if rows[0].Timestamp != 1743300000 || rows[0].Scalars != want {
		t.Errorf("got  %+v\nwant %+v", rows[0].Scalars, want)
	}
	if rows[1] != (samples.Row{Timestamp: 7}) || rows[2] != (samples.Row{Timestamp: 8}) {
		t.Errorf("empty rows: %+v", rows[1:])
	}
}

func TestReadLiveCSV(t *testing.T) {
	s := fullScalars()
	p := rt.ProcessScalars{Children: u(3), UserMillis: u(1500), SystemMillis: u(20), CPUUsage: f(0.152), Memory: u(5 << 20), DiskReadBytes: u(8),
		GPU: rt.GPUUse{Usage: f(1.5), VRAMUsed: u(7 << 20), Utilized: u(2)}}
	dialect, rows, err := readAll(t, LiveCSVHeader+string(AppendLiveCSV(nil, 9, &s, u(42), &p)))
	if err != nil || dialect != samples.Live || len(rows) != 1 {
		t.Fatalf("dialect %d, %d rows, %v", dialect, len(rows), err)
	}
	if rows[0].Process != p || rows[0].PID != u(42) {
		t.Errorf("got %+v of pid %v, want %+v", rows[0].Process, rows[0].PID, p)
	}
}

func TestReadCSVSaysWhereItIsWrong(t *testing.T) {
	with := func(column int, value string) string {
		fields := strings.Split(strings.TrimSuffix(fullRow, "\n"), ",")
		fields[column] = value
		return CSVHeader + fullRow + strings.Join(fields, ",") + "\n"
	}
	tests := []struct{ name, text, want string }{
		{"empty", "", "CSV line 1: the file is empty, a header was expected"},
		{"other header", "a,b\n1,2\n", "CSV line 1: not the header of a resource-tracker file"},
		{"binary", strings.Repeat("\x00", 9000), "CSV line 1: longer than 4096 bytes"},
		{"carriage returns", strings.ReplaceAll(CSVHeader, "\n", "\r\n"), "CSV line 1: not the header"},
		{"header again", CSVHeader + CSVHeader, `CSV line 2, column timestamp: "timestamp" is no number of seconds`},
		{"too few", CSVHeader + "1,2\n", "CSV line 2: 2 fields, the header has 21"},
		{"trailing comma", CSVHeader + strings.TrimSuffix(fullRow, "\n") + ",\n", "CSV line 2: 22 fields, the header has 21"},
		{"cut off", CSVHeader + fullRow + "17433", "CSV line 3: the file ends within it"},
		{"long line", CSVHeader + strings.Repeat("1", 5000) + "\n", "CSV line 2: longer than 4096 bytes"},
		{"text", with(1, "many"), `CSV line 3, column processes: "many" is no number with at most 0 decimals`},
		{"quoted", with(1, `"1"`), `column processes: "\"1\"" is no number`},
		{"negative", with(6, "-1"), `column memory_used: "-1" is no number`},
		{"exponent", with(4, "1e3"), `column cpu_usage: "1e3" is no number`},
		{"not a number", with(4, "NaN"), `column cpu_usage: "NaN" is no number`},
		{"too many decimals", with(2, "1.2345"), `column utime: "1.2345" is no number with at most 3 decimals`},
		{"no decimals after the point", with(2, "1."), `column utime: "1." is no number`},
		{"too large", with(5, "99999999999999999999"), `column memory_free: "99999999999999999999" is too large`},
		{"space", with(14, "600.204887"), `column disk_space_used_gb: "600.204887" is not total - free`},
		{"no used space", with(14, ""), `column disk_space_used_gb: "" is not total - free`},
		{"no time", with(0, ""), `column timestamp: "" is no number of seconds`},
		{"signed time", with(0, "+5"), `column timestamp: "+5" is no number of seconds`},
	}
	for _, tt := range tests {
		_, _, err := readAll(t, tt.text)
		var parse *samples.ParseError
		if !errors.As(err, &parse) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestReadCSVPassesOnReadErrors(t *testing.T) {
	broken := errors.New("disk on fire")
	if _, _, err := samples.ReadCSV(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("header: %v", err)
	}
}

func FuzzReadCSV(f *testing.F) {
	s := fullScalars()
	seeds := []string{
		CSVHeader + fullRow, CSVHeader, "", CSVHeader + "1" + strings.Repeat(",", 20) + "\n", CSVHeader + "1" + strings.Repeat(",", 20) + "NaN\n",
		LiveCSVHeader + string(AppendLiveCSV(nil, 9, &s, u(42), &rt.ProcessScalars{Memory: u(1 << 20)})),
		CSVHeader + "1,2,3.5,4.25,0.1,,,,,,,,,5.5,-1,6.5,,,1,2.5,\n",
		CSVHeader + "1,,,,,,5,,4" + strings.Repeat(",", 12) + "\n",
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dialect, rows, err := readAll(t, text)
		if err != nil {
			return
		}
		out := []byte(CSVHeader)
		if dialect == samples.Live {
			out = []byte(LiveCSVHeader)
		}
		for i := range rows {
			r := &rows[i]
			if dialect == samples.Live {
				out = AppendLiveCSV(out, r.Timestamp, &r.Scalars, r.PID, &r.Process)
			} else {
				out = AppendCSV(out, r.Timestamp, &r.Scalars)
				isOfJob := r.Scalars.MemCached.Valid() && !r.Scalars.MemBuffers.Valid()
				if isOfJob {
					r.Scalars.MemBuffers = u(0)
				}
			}
		}
		_, again, err := readAll(t, string(out))
		if err != nil || len(again) != len(rows) {
			t.Fatalf("%v, %d rows of %d, from\n%s", err, len(again), len(rows), out)
		}
		for i := range rows {
			if rows[i] != again[i] {
				t.Fatalf("row %d: %+v, then %+v", i, rows[i], again[i])
			}
		}
	})
}
