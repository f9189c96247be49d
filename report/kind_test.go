package report

import (
	"slices"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/request"
)

// wasteful are twelve jobs of one kind that use 27 to 31 MiB and 2 minutes of 200 GiB and a day.
func wasteful() (list []*Summary) {
	for n := range uint64(12) {
		s := ran(n+1, "n1", 0, 3600)
		s.Run.WorkDir, s.Run.Partition, s.Run.Start = "/home/anna", "long", s.Run.Start.Add(time.Duration(n)*time.Hour)
		s.Run.JobStart, s.Run.JobEndLimit = s.Run.Start, s.Run.Start.Add(24*time.Hour)
		s.ElapsedSecs, s.CPU.Cores, s.CPU.AllocatedSecs, s.CPU.UsedSecs = rt.Some(120+float64(n*7%12)/4), u(1), rt.Some(120.0), rt.Some(118.0)
		s.CPU.CoresOf = "allocation"
		s.Memory.PeakBytes, s.Memory.LimitBytes = u((27<<20)+(4<<20)*(n*5%12)/11), u(200<<30)
		list = append(list, s)
	}
	return list
}

func kindsOf(list []*Summary) []Kind { return Kinds(Jobs(list), DefaultPrices) }

// A submission of a kind gets one line with what its jobs used, what it requests, and what would do.
func TestLine(t *testing.T) {
	kinds := kindsOf(wasteful())
	if len(kinds) != 1 {
		t.Fatalf("%d kinds: %+v", len(kinds), kinds)
	}
	k := &kinds[0]
	if want := []string{"--mem=48M", "--time=00:03:00"}; !slices.Equal(k.Requests, want) || k.Jobs != 12 || k.WasteHours.Or(0) < 12*200*0.25*2/60*0.99 {
		t.Errorf("the kind is %+v", k)
	}
	name, partition := k.Name, k.Partition
	const whole = "your last 12 runs of this job used 27.0 to 31.0 MiB and 00:02:00 to 00:02:02; you request 200 GiB and 1-00:00:00: --mem=48M --time=00:03:00 would do"
	const onlyTime = "your last 12 runs of this job used 00:02:00 to 00:02:02; you request 1-00:00:00: --time=00:03:00 would do"
	like := func(change func(*request.Request)) request.Request {
		r := request.Request{Name: name, WorkDir: "/home/anna", Partition: "x," + partition, Cores: u(1), MemoryBytes: u(200 << 30), TimeSecs: rt.Some(86400.0)}
		change(&r)
		return r
	}
	for what, c := range map[string]struct {
		r    request.Request
		want string // "-": of no kind
	}{
		"same":     {like(func(*request.Request) {}), whole},
		"defaults": {like(func(r *request.Request) { r.Partition, r.MemoryBytes, r.TimeSecs = "", u(0), rt.None[float64]() }), "-"},
		"left to the site": {like(func(r *request.Request) {
			r.Partition, r.MemoryBytes, r.TimeSecs = "", rt.None[uint64](), rt.None[float64]()
		}), whole},
		"half":              {like(func(r *request.Request) { r.MemoryBytes = u(100 << 30) }), "your last 12 runs of this job used 27.0 to 31.0 MiB and 00:02:00 to 00:02:02; you request 100 GiB and 1-00:00:00: --mem=48M --time=00:03:00 would do"},
		"by CPU":            {like(func(r *request.Request) { r.MemoryBy = "--mem-per-cpu" }), "your last 12 runs of this job used 27.0 to 31.0 MiB and 00:02:00 to 00:02:02; you request 200 GiB and 1-00:00:00: --mem=48M (instead of --mem-per-cpu) --time=00:03:00 would do"},
		"followed":          {like(func(r *request.Request) { r.MemoryBytes, r.TimeSecs = u(48<<20), rt.Some(180.0) }), "-"},
		"half followed":     {like(func(r *request.Request) { r.MemoryBytes = u(48 << 20) }), "-"},
		"other name":        {like(func(r *request.Request) { r.Name = "other" }), "-"},
		"other directory":   {like(func(r *request.Request) { r.WorkDir = "/home/anna/b" }), "-"},
		"other partition":   {like(func(r *request.Request) { r.Partition = "y" }), "-"},
		"more cores":        {like(func(r *request.Request) { r.Cores = u(2) }), "-"},
		"a GPU":             {like(func(r *request.Request) { r.GPUs = 1 }), "-"},
		"two nodes":         {like(func(r *request.Request) { r.Nodes = u(2) }), "-"},
		"a quarter of time": {like(func(r *request.Request) { r.TimeSecs.Set(6 * 3600) }), "-"},
	} {
		got := "-"
		if k := KindOf(kinds, &c.r); k != nil {
			got = k.Line(&c.r)
		}
		if got != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
	k.Requests = []string{"--time=00:03:00"}
	same := like(func(*request.Request) {})
	if got := k.Line(&same); got != onlyTime {
		t.Errorf("only the time: %q", got)
	}
	k.Requests, k.GPUs = []string{"--cpus-per-task=1 --mem=200G", "no GPU"}, 2
	if got, want := k.Line(&same), "your last 12 runs of this job used 0.96 to 0.98 cores and no GPU; you request 1 core and 2 GPUs: --cpus-per-task=1 --mem=200G and no GPU would do"; got != want {
		t.Errorf("%q", got)
	}
}

// A kind requests nothing that one of its jobs would not have survived, and nothing if the newest job shows nothing.
func TestKindIsSafe(t *testing.T) {
	for what, c := range map[string]struct {
		change func([]*Summary)
		want   []string
	}{
		"one with more memory": {func(l []*Summary) { l[3].Memory.PeakBytes = u(20 << 30) }, []string{"--time=00:03:00"}},
		"one that took longer": {func(l []*Summary) { l[3].ElapsedSecs.Set(7200) }, []string{"--mem=48M"}},
		"one killed":           {func(l []*Summary) { l[3].Run.Outcome, l[3].Memory.OOMKills = rt.OutcomeOOM, u(1) }, []string{"--time=00:03:00"}},
		"gaps in the newest":   {func(l []*Summary) { l[11].Record.Gaps = 1 }, []string{"--mem=48M", "--time=00:03:00"}},
		"the newest with more": {func(l []*Summary) { l[11].Record.Gaps, l[11].Memory.PeakBytes = 1, u(20<<30) }, []string{"--time=00:03:00"}},
		"the newest failed":    {func(l []*Summary) { l[11].Run.Outcome = rt.OutcomeFailed }, nil},
		"no name":              {func(l []*Summary) { l[11].Run.Meta.JobName = "wrap" }, []string{"--mem=48M", "--time=00:03:00"}},
	} {
		list := wasteful()
		c.change(list)
		kinds := kindsOf(list)
		if len(kinds) == 0 || !slices.Equal(kinds[0].Requests, c.want) {
			t.Errorf("%s: %+v", what, kinds)
		}
	}
}

// Jobs with other requests are another kind, and the newest kind is the first.
func TestKinds(t *testing.T) {
	list := wasteful()
	for i := range 6 {
		list[2*i].Memory.LimitBytes = u(1 << 30)
	}
	kinds := kindsOf(list)
	if len(kinds) != 2 || kinds[0].LimitBytes.Or(0) != 200<<30 || kinds[0].Jobs != 6 || kinds[1].Jobs != 6 || !kinds[0].Start.After(kinds[1].Start) {
		t.Errorf("%+v", kinds)
	}
}
