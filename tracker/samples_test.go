package tracker

import (
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/e2e/samples"
	"github.com/resource-tracker/rt/format/resourcetracker"
)

// printed keeps each line on its own.
type printed struct{ list []string }

func (*printed) Room() bool        { return true }
func (p *printed) Add(line []byte) { p.list = append(p.list, string(line)) }

func snapshotAt(sec int64) *rt.Snapshot {
	s := &rt.Snapshot{Wall: sec * 1e9, Boot: sec * 1e9}
	s.Node.CPU.Set(rt.CPUTimes{User: uint64(sec) * 100, Idle: uint64(sec) * 100})
	s.Node.CPUs.Set(2)
	s.Node.Processes.Set(5)
	s.Nets = []rt.NetReading{{Name: "eth0", RxBytes: rt.Some(uint64(sec) * 10), TxBytes: rt.Some[uint64](0)}}
	return s
}

// Section 4: the first reading primes and is not shown.
func TestSamplesWritesLines(t *testing.T) {
	out := &printed{}
	e := &Samples{Out: out, CSV: true, Scope: rt.ScopeNode}
	reused := &rt.Snapshot{}
	for sec := int64(100); sec < 103; sec++ {
		*reused = *snapshotAt(sec)
		if err := e.Put(reused); err != nil {
			t.Fatal(err)
		}
		reused.Nets[0].Name = "overwritten by the next reading"
	}
	if len(out.list) != 3 || out.list[0] != resourcetracker.CSVHeader {
		t.Fatalf("%q", out.list)
	}
	for i, want := range []string{"101,5,1.000,0.000,1.0000,", "102,5,1.000,0.000,1.0000,"} {
		if !strings.HasPrefix(out.list[i+1], want) {
			t.Errorf("row %d: %s", i, out.list[i+1])
		}
	}
}

// What came and went while a counter could not be read is in the row after.
func TestSamplesSpansGaps(t *testing.T) {
	out := &printed{}
	e := &Samples{Out: out, CSV: true, Scope: rt.ScopeNode}
	for i, rx := range []rt.Opt[uint64]{rt.Some[uint64](100), rt.Some[uint64](200), {}, rt.Some[uint64](900)} {
		s := snapshotAt(100 + int64(i))
		s.Node.NetRxBytes = rx
		if err := e.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	_, rows, err := samples.ReadCSV(strings.NewReader(strings.Join(out.list, "")))
	if err != nil {
		t.Fatal(err)
	}
	var got []rt.Opt[uint64]
	for row, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row.Scalars.NetRecvBytes)
	}
	if want := []rt.Opt[uint64]{rt.Some[uint64](100), {}, rt.Some[uint64](700)}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestSamplesJSON(t *testing.T) {
	out := &printed{}
	e := &Samples{Out: out, JobName: rt.Some("j")}
	for _, sec := range []int64{100, 101, 99} { // T-OUT-04: the clock was set back
		if err := e.Put(snapshotAt(sec)); err != nil {
			t.Fatal(err)
		}
	}
	if len(out.list) != 2 {
		t.Fatalf("%q", out.list)
	}
	for _, line := range out.list {
		s, _, err := samples.DecodeJSON([]byte(line))
		if err != nil || s.TimestampSecs != 101 || s.JobName != rt.Some("j") {
			t.Errorf("%v in %s", err, line)
		}
	}
	if strings.Contains(out.list[0], "actual_interval_ms") || !strings.Contains(out.list[1], `,"actual_interval_ms":`) {
		t.Errorf("the interval is in %q", out.list)
	}
	first, _, err := samples.DecodeJSON([]byte(out.list[0]))
	if err != nil || first.Network[0].RxBytesPerSec != rt.Some(10.0) {
		t.Errorf("rate %v, %v", first.Network[0].RxBytesPerSec, err)
	}
}

// The live dialect has no sample of the milliseconds between the newest sample and the end, but one
// of a command that takes no longer.
func TestSamplesOfTheLiveDialectEnd(t *testing.T) {
	for _, tt := range []struct {
		live   bool
		millis []int64 // of the snapshots, the last one at the end
		want   int     // lines
	}{
		{true, []int64{0, 1000, 2000, 2001}, 2}, {false, []int64{0, 1000, 2000, 2001}, 3}, {true, []int64{0, 20}, 1}, {true, []int64{0, 1000, 1500}, 2},
	} {
		out := &printed{}
		e := &Samples{Out: out, Live: tt.live, Scope: rt.ScopeNode, PID: rt.Some[uint64](7)}
		for i, ms := range tt.millis {
			s := snapshotAt(100)
			s.Boot, s.Wall = s.Boot+ms*1e6, s.Wall+ms*1e6
			if i == len(tt.millis)-1 {
				s.Reason = rt.ReasonLast
			}
			if err := e.Put(s); err != nil {
				t.Fatal(err)
			}
		}
		if len(out.list) != tt.want {
			t.Errorf("live %t, at %d ms: %d lines, want %d", tt.live, tt.millis, len(out.list), tt.want)
		}
		if got := strings.Contains(out.list[0], `"tracked_pid":7`); got != tt.live {
			t.Errorf("live %t: %s", tt.live, out.list[0])
		}
	}
}
