package report

import (
	"slices"
	"strings"
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
		}), ""},
		"without memory":    {like(func(r *request.Request) { r.MemoryBytes = rt.None[uint64]() }), onlyTime},
		"all of the memory": {like(func(r *request.Request) { r.MemoryBytes, r.IsUnclear = rt.None[uint64](), true }), "-"},
		"other cluster":     {like(func(r *request.Request) { r.Cluster = "far,further" }), "-"},
		"this cluster":      {like(func(r *request.Request) { r.Cluster = "far," + k.Cluster }), whole},
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
	k.Requests, k.Jobs = []string{"--time=00:03:00"}, 1
	one := like(func(*request.Request) {})
	if got := k.Line(&one); !strings.HasPrefix(got, "your last run of this job used ") {
		t.Errorf("one run: %q", got)
	}
	k.Jobs = 12
	same := like(func(*request.Request) {})
	if got := k.Line(&same); got != onlyTime {
		t.Errorf("only the time: %q", got)
	}
}

// The advice about cores and GPUs is in the options of the submission, and less than it requests.
func TestLineOfCoresAndGPUs(t *testing.T) {
	for what, c := range map[string]struct {
		args, want string
	}{
		"cores and GPUs": {"-c4 -G 2", "your last 6 runs of this job used 0.96 to 0.98 cores and no GPU; you request 4 cores and 2 GPUs: --cpus-per-task=1 and no GPU would do"},
		"as many cores":  {"-c1 -n4 -G 2", "your last 6 runs of this job used no GPU; you request 2 GPUs: no GPU would do"},
		"all cores":      {"--exclusive", ""},
		"no GPU":         {"-c4", "your last 6 runs of this job used 0.96 to 0.98 cores; you request 4 cores: --cpus-per-task=1 would do"},
	} {
		if got := lineOf(c.args, "--cpus-per-task=1", "no GPU"); got != c.want {
			t.Errorf("%s: %q", what, got)
		}
	}
	for args, want := range map[string]string{
		"--gpus-per-node=4": "--gpus-per-node=1", "--gpus=a100:4": "--gpus=a100:1", "--gres=gpu:a100:4": "--gres=gpu:a100:1", "-G 1": "", "": "",
	} {
		if want != "" {
			want = "your last 6 runs of this job used not all GPUs; you request 4 GPUs: " + want + " would do"
		}
		if got := lineOf(args, "--gpus-per-node=1"); got != want {
			t.Errorf("%s: %q", args, got)
		}
	}
	if got := lineOf("-c8 -n1", "--cpus-per-task=0"); got != "" {
		t.Errorf("fewer cores than were used: %q", got)
	}
}

// lineOf is the line for options of sbatch, of a kind with these requests.
func lineOf(args string, requests ...string) string {
	o := request.Options{}
	o.Read(strings.Fields(args))
	r := request.Of(o, nil, "")
	k := Kind{Jobs: 6, Nodes: 1, Cores: u(4), UsedCores: Range{rt.Some(0.96), rt.Some(0.98)}, Requests: requests}
	return k.Line(&r)
}

// A kind whose newest job was killed for memory needs more; a submission that requests it already is right.
func TestKindOfAKilledJob(t *testing.T) {
	list := wasteful()
	for _, s := range list {
		s.Memory.LimitBytes = u(70 << 20)
	}
	last := list[len(list)-1]
	last.Run.Outcome, last.Memory.OOMKills, last.Memory.PeakBytes = rt.OutcomeOOM, u(1), u(70<<20)
	k := kindsOf(list)[0]
	for mib, want := range map[uint64]string{70: "your last run of this job needed more than it requested: request --mem=144M", 144: ""} {
		if got := k.MoreLine(&request.Request{MemoryBytes: u(mib << 20), TimeSecs: rt.Some(86400.0)}); got != want {
			t.Errorf("%d MiB: %q", mib, got)
		}
	}
}

// Of kinds in several clusters it is not known which one a submission is of. Without a partition the limit of time is not.
func TestKindOfSeveral(t *testing.T) {
	one := Kind{Names: Names{Name: "relax", Cluster: "a", Partition: "long"}, Nodes: 1, Requests: []string{"--mem=1G", "--time=00:10:00"}}
	other := one
	other.Partition = "short"
	r := request.Request{Name: "relax"}
	if k := KindOf([]Kind{one, other}, &r); k == nil || !slices.Equal(k.Requests, one.Requests[:1]) || len(one.Requests) != 2 {
		t.Errorf("of two partitions: %+v", k)
	}
	r.Partition = "long"
	if k := KindOf([]Kind{other, one}, &r); k == nil || !slices.Equal(k.Requests, one.Requests) {
		t.Errorf("of this partition: %+v", k)
	}
	other = one
	other.Cluster = "b"
	if k := KindOf([]Kind{one, other}, &r); k != nil {
		t.Errorf("of two clusters: %+v", k)
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
