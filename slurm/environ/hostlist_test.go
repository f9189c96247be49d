package environ

import (
	"slices"
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

func TestExpandHosts(t *testing.T) {
	tests := []struct {
		list string
		want []string // nil: an error
	}{
		{"n1", []string{"n1"}},
		{"n1,login,gpu-2.cluster", []string{"n1", "login", "gpu-2.cluster"}},
		{"n[1-3]", []string{"n1", "n2", "n3"}},
		{"n[1-2,5]", []string{"n1", "n2", "n5"}},
		{"n[5,1-2]", []string{"n5", "n1", "n2"}},
		{"prefix[08-11]suffix", []string{"prefix08suffix", "prefix09suffix", "prefix10suffix", "prefix11suffix"}},
		{"n[098-101]", []string{"n098", "n099", "n100", "n101"}},
		{"a[1-2]b[3-4]", []string{"a1b3", "a1b4", "a2b3", "a2b4"}},
		{"a[1-2],b[3,5],c", []string{"a1", "a2", "b3", "b5", "c"}},
		{"n[7]", []string{"n7"}},
		{"", []string{}},
		{"n[1-2", nil},
		{"n1-2]", nil},
		{"n[1[2]]", nil},
		{"n[2-1]", nil},
		{"n[a-b]", nil},
		{"n[1-2-3]", nil},
		{"n[]", nil},
		{"n[1,]", nil},
		{"n1,,n2", nil},
		{",n1", nil},
		{"n1,", nil},
		{"n[-3]", nil},
		{"n[0-4294967295]", nil},
		{"n[1-1000]m[1-1000]", nil}, // more than Slurm can have
		{strings.Repeat("x", 300) + "[1-100000]", nil},
	}
	for _, tt := range tests {
		got, err := ExpandHosts(tt.list)
		if (err == nil) != (tt.want != nil) {
			t.Errorf("%.40q: error %v", tt.list, err)
			continue
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%.40q: %q, want %q", tt.list, got, tt.want)
		}
	}
}

func FuzzExpandHosts(f *testing.F) {
	for _, seed := range []string{"n1", "n[1-2,5]", "prefix[01-10]suffix", "a[1-2]b[3-4],c", "n[", "n]1[", "n[1-999999]", "a[1-300]b[1-300]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := ExpandHosts(list)
		if err != nil {
			return
		}
		if len(hosts) > maxHosts {
			t.Fatalf("%d hosts", len(hosts))
		}
		for _, h := range hosts {
			if h == "" || strings.ContainsAny(h, "[],") {
				t.Errorf("%q gives the host %q", list, h)
			}
		}
		// The list of the names expands to the same names.
		again, err := ExpandHosts(strings.Join(hosts, ","))
		if err != nil || !slices.Equal(again, hosts) {
			t.Errorf("%q: the names do not expand to themselves: %v", list, err)
		}
	})
}

func TestCPUsOn(t *testing.T) {
	none := rt.None[uint64]()
	tests := []struct {
		name, spec, list, node string
		want                   rt.Opt[uint64]
	}{
		{"one node", "4", "n1", "n1", rt.Some[uint64](4)},
		{"all the same", "2(x3)", "n[1-3]", "n3", rt.Some[uint64](2)},
		{"first of a mixture", "2,4(x3)", "n[1-4]", "n1", rt.Some[uint64](2)},
		{"last of a mixture", "2,4(x3)", "n[1-4]", "n4", rt.Some[uint64](4)},
		{"middle", "1,2(x2),8", "a1,b[1-2],c", "b2", rt.Some[uint64](2)},
		{"same figure twice", "2,2(x2)", "n[1-3]", "n2", rt.Some[uint64](2)},
		{"a step's list, the same everywhere", "1(x3)", "n3", "n3", rt.Some[uint64](1)},
		{"a step's list, a mixture", "1,2,4", "n3", "n3", none},
		{"another node", "1,2", "n[1-2]", "n3", none},
		{"no list", "1,2", "", "n1", none},
		{"nothing", "", "n1", "n1", none},
		{"malformed", "2(x", "n1", "n1", none},
		{"malformed repeat", "2(x0)", "n1", "n1", none},
		{"not a number", "many", "n1", "n1", none},
		{"malformed list", "1,2", "n[1-2", "n1", none},
	}
	for _, tt := range tests {
		if got := cpusOn(tt.spec, tt.list, tt.node); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestStepTasksHere(t *testing.T) {
	none := rt.None[uint64]()
	for _, tt := range []struct {
		tasks, node string
		want        rt.Opt[uint64]
	}{
		{"8(x2)", "1", rt.Some[uint64](8)},
		{"7,3(x2)", "0", rt.Some[uint64](7)},
		{"7,3(x2)", "2", rt.Some[uint64](3)},
		{"7,3(x2)", "3", none},
		{"1", "", none},
		{"", "0", none},
		{"8(x", "0", none},
	} {
		if got := StepTasksHere(Env{"SLURM_STEP_TASKS_PER_NODE": tt.tasks, "SLURM_NODEID": tt.node}); got != tt.want {
			t.Errorf("%q, node %q: %v, want %v", tt.tasks, tt.node, got, tt.want)
		}
	}
}

func FuzzCPUsOn(f *testing.F) {
	f.Add("1(x2)", "n[1-2]", "n2")
	f.Add("2,4(x3)", "n[1-4]", "n3")
	f.Add("4294967295(x4294967295)", "n1", "n1")
	f.Fuzz(func(t *testing.T, spec, list, node string) {
		if n, ok := cpusOn(spec, list, node).Get(); ok && n > 1<<32 {
			t.Errorf("%q gives %d CPUs", spec, n)
		}
	})
}
