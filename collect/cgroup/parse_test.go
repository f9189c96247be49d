package cgroup

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
)

func TestParseNumber(t *testing.T) {
	tests := []struct {
		in   string
		want uint64
		ok   bool
	}{
		{"0\n", 0, true},
		{"1949696\n", 1949696, true},
		{"18446744073709551615", math.MaxUint64, true},
		{"18446744073709551616", 0, false},
		{"99999999999999999999", 0, false},
		{"", 0, false},
		{"\n", 0, false},
		{"-1\n", 0, false},
		{"1.5", 0, false},
		{"max\n", 0, false},
		{"12 34\n", 0, false},
		{"1\n2\n", 0, false},
	}
	for _, tt := range tests {
		got, ok := parseNumber([]byte(tt.in))
		if got != tt.want && tt.ok || ok != tt.ok {
			t.Errorf("parseNumber(%q) = %d, %t; want %d, %t", tt.in, got, ok, tt.want, tt.ok)
		}
	}
}

func TestParseMemoryMax(t *testing.T) {
	for in, want := range map[string]rt.Opt[uint64]{"max\n": some(rt.Unlimited), "209715200\n": some(209715200), "0\n": some(0), "maximum\n": {}} {
		var r rt.JobReading
		parseMemoryMax([]byte(in), &r)
		if r.MemLimit != want {
			t.Errorf("memory.max of %q is %v; want %v", in, r.MemLimit, want)
		}
	}
}

func TestParseFiles(t *testing.T) {
	tests := []struct {
		name  string
		parse func([]byte, *rt.JobReading)
		in    string
		want  rt.JobReading
	}{
		{"cpu.stat without the controller", parseCPUStat, "usage_usec 30\nuser_usec 20\nsystem_usec 10\n",
			rt.JobReading{CPUUsage: some(30), CPUUser: some(20), CPUSystem: some(10)}},
		{"cpu.stat with a value that is no number", parseCPUStat, "usage_usec x\nuser_usec 20\n\nsystem_usec\nthrottled_usec 7",
			rt.JobReading{CPUUser: some(20), CPUThrottled: some(7)}},
		{"cpu.stat v1", parseCPUStatV1, "nr_periods 42\nnr_throttled 41\nthrottled_time 1119649948\n",
			rt.JobReading{CPUThrottled: some(1119649)}},
		{"cpuacct.stat", parseCPUAcctStat, "user 326\nsystem 8\n",
			rt.JobReading{CPUUser: some(3260000), CPUSystem: some(80000)}},
		{"memory.stat with half of active", parseMemoryStat, "anon 5\nactive_anon 1\ninactive_anon 2\ninactive_file 3\n",
			rt.JobReading{Anon: some(5), Inactive: some(5)}},
		{"memory.stat v1 takes the totals alone", parseMemoryStatV1, "rss 1\ncache 2\npgfault 3\ntotal_rss 4\ntotal_cache 5\ntotal_pgfault 6\n",
			rt.JobReading{Anon: some(4), File: some(5), PageFaults: some(6)}},
		{"memory.stat v1 without a limit", parseMemoryStatV1, "hierarchical_memory_limit 9223372036854771712\n",
			rt.JobReading{MemLimit: some(rt.Unlimited)}},
		{"memory.events", parseMemoryEvents, "low 1\nhigh 2\nmax 3\noom 4\noom_kill 5\noom_group_kill 6\n",
			rt.JobReading{EventsHigh: some(2), EventsMax: some(3), EventsOOM: some(4), EventsOOMKill: some(5)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got rt.JobReading
			tt.parse([]byte(tt.in), &got)
			same(t, got, tt.want)
		})
	}
}

func TestParseKey(t *testing.T) {
	if v, ok := parseKey([]byte("populated 0\nfrozen 1\n"), "populated"); !ok || v != 0 {
		t.Errorf("populated = %d, %t", v, ok)
	}
	if _, ok := parseKey([]byte("oom_kill_disable 0\nunder_oom 0\n"), "oom_kill"); ok {
		t.Error("oom_kill found in the memory.oom_control of an old kernel")
	}
}

const devices = `Character devices:
  1 mem
  9 st
Block devices:
  7 loop
  8 sd
  9 md
252 virtblk
253 device-mapper
259 blkext
`

func TestParseIO(t *testing.T) {
	skip := parseStackedMajors([]byte(devices))
	if !slices.Equal(skip, majors{7, 9, 253}) {
		t.Fatalf("stacked majors = %v", skip)
	}
	tests := []struct {
		name        string
		parse       func([]byte, majors) (uint64, uint64)
		in          string
		read, write uint64
	}{
		{"io.stat", parseIOStat, "8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n" +
			"253:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n" +
			"259:0 rbytes=90430464 wbytes=299008000 rios=8950 wios=1252 dbytes=50331648 dios=3021\n", 91889664, 613781504},
		{"io.stat without I/O", parseIOStat, "", 0, 0},
		{"io.stat with a device that has no figures", parseIOStat, "8:0 \n8:16 rbytes=5\n", 5, 0},
		{"io.stat of Linux 5.15, a disk without I/O before a stacked device", parseIOStat, "8:0 253:0 rbytes=5 wbytes=6\n8:16 rbytes=1 wbytes=2\n", 1, 2},
		{"io.stat of Linux 5.15, a stacked device without I/O before a disk", parseIOStat, "253:0 253:1 8:0 rbytes=5 wbytes=6 rios=1\n7:0 \n", 5, 6},
		{"io.stat of Linux 5.15, names at the end", parseIOStat, "8:16 rbytes=5\n8:0 8:32 253:0 ", 5, 0},
		{"io.stat of Linux 5.15, figures of iocost and iolatency", parseIOStat, "7:0 8:0 rbytes=5 wbytes=6 use_delay=0 cost.usage=7 depth=max\n", 5, 6},
		{"io.stat with an unnamed device", parseIOStat, "(unknown) rbytes=5 wbytes=6\n", 0, 0},
		{"blkio", parseBlkio, "8:0 Read 62914560\n8:0 Write 4096\n8:0 Sync 1\n8:0 Async 2\n8:0 Discard 0\n8:0 Total 62918656\n" +
			"253:0 Read 62914560\n253:0 Write 4096\nTotal 125837312\n", 62914560, 4096},
		{"blkio without I/O", parseBlkio, "Total 0\n", 0, 0},
	}
	for _, tt := range tests {
		if r, w := tt.parse([]byte(tt.in), skip); r != tt.read || w != tt.write {
			t.Errorf("%s: read %d, write %d; want %d, %d", tt.name, r, w, tt.read, tt.write)
		}
	}
}

func TestParsePIDs(t *testing.T) {
	var pids []int
	count := parsePIDs([]byte("329\n435\n0\n1048576\n7"), &pids)
	if !slices.Equal(pids, []int{329, 435, 1048576, 7}) || count != 5 {
		t.Errorf("%v, %d processes", pids, count)
	}
}

// seeds adds every file of the fixtures with a name that ends in suffix.
func seeds(f *testing.F, suffix string) {
	f.Helper()
	n := 0
	for _, name := range []string{"testdata/v1-job.txtar", "testdata/v2-job.txtar"} {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range a.Files {
			if bytes.HasSuffix([]byte(file.Name), []byte(suffix)) {
				f.Add(file.Data)
				n++
			}
		}
	}
	if n == 0 {
		f.Fatalf("no seed ends in %s", suffix)
	}
}

func FuzzParseNumber(f *testing.F) {
	seeds(f, "memory.peak")
	f.Add([]byte("18446744073709551616"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, ok := parseNumber(b)
		want, err := strconv.ParseUint(string(bytes.TrimRight(b, " \n")), 10, 64)
		if ok != (err == nil) || ok && v != want {
			t.Errorf("parseNumber(%q) = %d, %t; strconv says %d, %v", b, v, ok, want, err)
		}
	})
}

// FuzzReadings: a reading never depends on a line that is no pair, and parsing twice
// gives the same.
func FuzzReadings(f *testing.F) {
	seeds(f, ".stat")
	seeds(f, "memory.events")
	f.Fuzz(func(t *testing.T, b []byte) {
		for i, parse := range []func([]byte, *rt.JobReading){
			parseCPUStat, parseCPUStatV1, parseCPUAcctStat, parseMemoryStat, parseMemoryStatV1, parseMemoryEvents,
		} {
			var once, framed rt.JobReading
			parse(b, &once)
			parse(slices.Concat([]byte("x\n\nx y\n"), b, []byte("\nx")), &framed)
			if once != framed {
				t.Errorf("parser %d: %q differs between lines without a meaning", i, b)
			}
		}
	})
}

func FuzzParseKey(f *testing.F) {
	seeds(f, "memory.oom_control")
	seeds(f, "cgroup.events")
	f.Fuzz(func(t *testing.T, b []byte) {
		if v, ok := parseKey(b, "oom_kill"); ok && !bytes.Contains(b, []byte("oom_kill")) {
			t.Errorf("%q has an oom_kill of %d", b, v)
		}
	})
}

func FuzzParseIO(f *testing.F) {
	seeds(f, "io_service_bytes_recursive")
	f.Add([]byte("8:16 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all := majors{}
		for n := range uint64(1 << 10) {
			all = append(all, n)
		}
		for _, parse := range []func([]byte, majors) (uint64, uint64){parseIOStat, parseBlkio} {
			r1, w1 := parse(b, nil)
			r2, w2 := parse(append(slices.Clone(b), "\n8:0 \nTotal 5\n"...), nil)
			if r1 != r2 || w1 != w2 {
				t.Errorf("%q: %d, %d; with lines without a meaning %d, %d", b, r1, w1, r2, w2)
			}
			parse(b, all)
		}
	})
}

func FuzzPidList(f *testing.F) {
	seeds(f, "cgroup.procs")
	f.Fuzz(func(t *testing.T, b []byte) {
		var pids []int
		count := parsePIDs(b, &pids)
		if count < len(pids) || count != parsePIDs(b, nil) {
			t.Errorf("%q: %v, %d processes", b, pids, count)
		}
	})
}

func FuzzStackedMajors(f *testing.F) {
	f.Add([]byte("Character devices:\n  1 mem\n\nBlock devices:\n  8 sd\n253 device-mapper\n"))
	f.Add([]byte("Block\tdevices:\n3\fdevice-mapper"))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Between the two words of the heading any blanks are accepted.
		hasHeading := bytes.Contains(b, []byte("Block")) && bytes.Contains(b, []byte("devices:"))
		if len(parseStackedMajors(b)) > 0 && !hasHeading {
			t.Errorf("%q has block devices", b)
		}
	})
}
