package request

import (
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// A script and the options after it ask for what sbatch would. The options win.
func TestScript(t *testing.T) {
	const script = "#!/bin/bash\n#SBATCH --mem=200G -t 1-0 # all of it\n\n# a comment\n#SBATCH -J 'my job' -n2 -c 4 --export=ALL,A=1\n#SBATCH --gres=gpu:a100:2,scratch:1\n#SBATCH --chdir=sub\ncd /tmp\n#SBATCH --mem=1G\n"
	o := Options{}
	if err := o.ReadScript(strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	want := Request{
		Name: "my job", WorkDir: "/home/anna/sub", MemoryBytes: rt.Some[uint64](200 << 30), TimeSecs: rt.Some(86400.0), Cores: rt.Some[uint64](8), GPUs: 2,
	}
	if got := Of(o, []string{"dir/job.sh"}, "/home/anna"); got != want {
		t.Errorf("the script asks for %+v", got)
	}
	o.Read([]string{"-pgpu,long", "--mem-per-cpu", "2G", "--job-name=x", "--unknown", "value", "--hold", "-A", "chem", "-N1", "--time=90"})
	want.Name, want.Partition, want.Account, want.MemoryBytes, want.MemoryBy = "x", "gpu,long", "chem", rt.Some[uint64](16<<30), "--mem-per-cpu"
	want.TimeSecs, want.Nodes = rt.Some(5400.0), rt.Some[uint64](1)
	if got := Of(o, nil, "/home/anna"); got != want {
		t.Errorf("with options it asks for %+v", got)
	}
}

// What cli_filter/lua of Slurm 22.05 passes on.
func TestFilter(t *testing.T) {
	r, o, err := OfFilter([]byte(`{"cpus-per-task":"2","gpus":"1","mem":"0?","time":"1-00:00:00","array":"1-3","argv":["\/tmp\/my job.sh","x","y;z"]}`), "/tmp")
	want := Request{Name: "my job.sh", WorkDir: "/tmp", TimeSecs: rt.Some(86400.0), Cores: rt.Some[uint64](2), GPUs: 1}
	if err != nil || r != want || o["array"] != "1-3" {
		t.Errorf("%+v %v %v", r, o, err)
	}
	for _, text := range []string{"", "[]", `{"argv":`, `"x"`} {
		if _, _, err := OfFilter([]byte(text), "/"); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func TestValues(t *testing.T) {
	for text, want := range map[string]uint64{"64M": 64 << 20, "4096": 4 << 30, "1g": 1 << 30, "512KB": 512 << 10, "2T": 2 << 40, "0": 0, "": 0, "x": 0, "-1": 0, "1P": 0} {
		if got, ok := ParseMemory(text); got != want || ok != (want > 0) {
			t.Errorf("--mem=%s is %d", text, got)
		}
	}
	for text, want := range map[string]float64{
		"5": 300, "5:30": 330, "1:00:30": 3630, "2-0": 172800, "1-2:30": 95400, "1-00:00:01": 86401, "UNLIMITED": 0, "": 0, "0": 0, "1-": 0, "1:2:3:4": 0, "-5": 0,
	} {
		if got, ok := parseTime(text); got != want || ok != (want > 0) {
			t.Errorf("--time=%s is %v", text, got)
		}
	}
	for _, c := range []struct {
		args        string
		cores, gpus uint64
	}{
		{"", 1, 0}, {"-N2", 2, 0}, {"-N2 --ntasks-per-node=4", 8, 0}, {"-n3 -c2", 6, 0}, {"--exclusive", 0, 0}, {"--gres=gpu", 1, 1}, {"-N2 --gpus-per-node=v100:2", 2, 4}, {"-G 3", 1, 3},
	} {
		o := Options{}
		o.Read(strings.Fields(c.args))
		if r := Of(o, nil, "/"); r.Cores.Or(0) != c.cores || r.GPUs != c.gpus {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}
