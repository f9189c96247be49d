package perf

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"
)

func tree(tb testing.TB) string {
	tb.Helper()
	a, err := txtar.ParseFile("testdata/sys.txtar")
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	if err := txtar.Write(a, dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func TestParse(t *testing.T) {
	const list = "cycles, INSTRUCTIONS_RETIRED=instructions,r01c2,LLC_MISSES=r412e,cpu/cache-misses/,cpu/event=0x3c,umask=0x1,inv/," +
		"X=cpu/event=0xb7,offcore_rsp=0x10003c0001/,s=cpu/split=0xa5/,c=cpu/config=5,config1=6,config2=7/,power/energy-pkg/,RAPL_ENERGY_DRAM=power/energy-ram/,msr/mperf/"
	got, err := Parse(tree(t), list)
	if err != nil {
		t.Fatal(err)
	}
	want := []Event{
		{Name: "cycles", Type: 0, Config: 0},
		{Name: "INSTRUCTIONS_RETIRED", Type: 0, Config: 1},
		{Name: "r01c2", Type: 4, Config: 0x1c2},
		{Name: "LLC_MISSES", Type: 4, Config: 0x412e},
		{Name: "cpu/cache-misses/", Type: 4, Config: 0x412e},
		{Name: "cpu/event=0x3c,umask=0x1,inv/", Type: 4, Config: 0x80013c},
		{Name: "X", Type: 4, Config: 0xb7, Config1: 0x10003c0001},
		{Name: "s", Type: 4, Config2: 0xa<<32 | 5},
		{Name: "c", Type: 4, Config: 5, Config1: 6, Config2: 7},
		{Name: "power/energy-pkg/", Type: 21, Config: 2},
		{Name: "RAPL_ENERGY_DRAM", Type: 21, Config: 3},
		{Name: "msr/mperf/", Type: 10, Config: 2},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// headerNames are the kernel's names of the generic events, and their numbers in its
// interface, which never change.
var headerNames = map[string]struct {
	name string
	typ  uint32
	id   uint64
}{
	"cycles": {"PERF_COUNT_HW_CPU_CYCLES", 0, 0}, "instructions": {"PERF_COUNT_HW_INSTRUCTIONS", 0, 1},
	"cache-references": {"PERF_COUNT_HW_CACHE_REFERENCES", 0, 2}, "cache-misses": {"PERF_COUNT_HW_CACHE_MISSES", 0, 3},
	"branches": {"PERF_COUNT_HW_BRANCH_INSTRUCTIONS", 0, 4}, "branch-misses": {"PERF_COUNT_HW_BRANCH_MISSES", 0, 5},
	"bus-cycles": {"PERF_COUNT_HW_BUS_CYCLES", 0, 6}, "ref-cycles": {"PERF_COUNT_HW_REF_CPU_CYCLES", 0, 9},
	"cpu-clock": {"PERF_COUNT_SW_CPU_CLOCK", 1, 0}, "task-clock": {"PERF_COUNT_SW_TASK_CLOCK", 1, 1},
	"page-faults": {"PERF_COUNT_SW_PAGE_FAULTS", 1, 2}, "context-switches": {"PERF_COUNT_SW_CONTEXT_SWITCHES", 1, 3},
	"cpu-migrations": {"PERF_COUNT_SW_CPU_MIGRATIONS", 1, 4}, "minor-faults": {"PERF_COUNT_SW_PAGE_FAULTS_MIN", 1, 5},
	"major-faults": {"PERF_COUNT_SW_PAGE_FAULTS_MAJ", 1, 6},
}

// Every generic event is encoded as the kernel's header says; where the header is
// installed, as it says itself.
func TestEncodingIsTheKernels(t *testing.T) {
	header, _ := os.ReadFile("/usr/include/linux/perf_event.h") // the numbers above stand for it elsewhere
	types := map[uint32]string{0: "PERF_TYPE_HARDWARE", 1: "PERF_TYPE_SOFTWARE", 4: "PERF_TYPE_RAW"}
	if len(generic) != len(headerNames) {
		t.Errorf("%d events, of %d the encoding is known", len(generic), len(headerNames))
	}
	for _, e := range generic {
		want, ok := headerNames[e.Name]
		if !ok || e.Type != want.typ || e.Config != want.id {
			t.Errorf("%s is type %d, config %d; want %+v", e.Name, e.Type, e.Config, want)
		}
		for name, number := range map[string]uint64{want.name: e.Config, types[e.Type]: uint64(e.Type)} {
			if got, ok := constant(header, name); header != nil && (!ok || got != number) {
				t.Errorf("%s is %d in the header, not %d", name, got, number)
			}
		}
	}
	if raw, err := parsePlain("r1"); err != nil || raw.Type != 4 {
		t.Errorf("a raw event is type %d, %v", raw.Type, err)
	}
	for name, number := range map[string]uint64{
		"PERF_FORMAT_TOTAL_TIME_ENABLED": 1, "PERF_FORMAT_TOTAL_TIME_RUNNING": 2, "PERF_FORMAT_GROUP": 8,
	} {
		if readFormat&number != number {
			t.Errorf("%s is not asked for", name)
		}
	}
	if unix.PERF_FLAG_PID_CGROUP != 4 || unix.PERF_FLAG_FD_CLOEXEC != 8 || unix.PERF_ATTR_SIZE_VER5 != 112 {
		t.Error("the flags of perf_event_open(2) are others")
	}
}

func constant(header []byte, name string) (uint64, bool) {
	m := regexp.MustCompile(`(?m)^\s*` + name + `\s*=\s*(\d+),`).FindSubmatch(header)
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(m[1]), 10, 64)
	return n, err == nil
}

func TestBadEvents(t *testing.T) {
	for list, want := range map[string]string{
		"cylces":                "neither a generic one",
		"rzz":                   "neither a generic one",
		"cycles,cycles":         "twice",
		"power/energy-pkg":      "not like power/energy-pkg/",
		"/x/":                   "not like",
		"../x/y/":               "not like",
		"cpu//":                 "not like",
		"cpu/event=one/":        "event=one",
		"cpu/event=0x100/":      "more bits",
		"uncore/clockticks/":    "not supported",
		"power/energy-gpu/":     "not supported",
		"cpu/nonsense=1/":       "not supported",
		"cpu/mem-loads/":        "not supported",
		"cpu/odd=1/":            "not supported",
		"cpu/event=0x3c/extra/": "not like",
	} {
		_, err := Parse(tree(t), list)
		var status *StatusError
		switch {
		case err == nil:
			t.Errorf("%q is read", list)
		case want == NotSupported:
			if !errors.As(err, &status) || status.Word != NotSupported {
				t.Errorf("%q: %v", list, err)
			}
		case !strings.Contains(err.Error(), want):
			t.Errorf("%q: %v, want %q", list, err, want)
		}
	}
	if err := Check("cycles,power/energy-gpu/,A=r1"); err != nil {
		t.Errorf("what another machine may have: %v", err)
	}
}

func TestStatusOfOpen(t *testing.T) {
	for errno, want := range map[error]string{
		unix.ENOENT: NotSupported, unix.EOPNOTSUPP: NotSupported, unix.EINVAL: NotSupported, unix.EACCES: Denied, unix.EPERM: Denied, unix.EBUSY: Busy, unix.EMFILE: Failed,
	} {
		var status *StatusError
		if err := openError("cycles", 3, errno); !errors.As(err, &status) || status.Status() != want || !errors.Is(err, errno) || !strings.Contains(err.Error(), "cycles on CPU 3") {
			t.Errorf("%v is %v", errno, err)
		}
	}
}

func TestCPUs(t *testing.T) {
	dir := tree(t)
	all, err := cpus(dir, "")
	if err != nil || !slices.Equal(all, []cpu{{0, 0}, {1, 0}, {2, 1}, {3, 1}}) {
		t.Errorf("%v, %v", all, err)
	}
	packages, err := cpus(dir, "bus/event_source/devices/power/cpumask")
	if err != nil || !slices.Equal(packages, []cpu{{0, 0}, {2, 1}}) {
		t.Errorf("%v, %v", packages, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"cycles,X=r01c2", "power/energy-pkg/", "cpu/event=0x3c,umask=1/", "a=cpu/config=0x1/"} {
		f.Add(seed)
	}
	dir := tree(f)
	f.Fuzz(func(t *testing.T, list string) {
		events, err := Parse(dir, list)
		if err == nil && len(events) > 0 && Check(list) != nil {
			t.Errorf("%q is good on this machine and on no machine", list)
		}
	})
}
