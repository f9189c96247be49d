package request

import (
	"strings"
	"testing"

	"github.com/resource-tracker/rt"
)

// A script and the options after it ask for what sbatch would. The options win.
func TestScript(t *testing.T) {
	const script = "#!/bin/bash\n#SBATCH --mem=200G -t 1-0 # all of it\n\n  # a comment\n#SBATCH -J 'my job' -n2 -c 4 --export=ALL,A=1\n#SBATCH --gres=gpu:a100:2,scratch:1\n#SBATCH --chdir=sub\ncd /tmp\n#SBATCH --mem=1G\n"
	o := Options{}
	if err := o.ReadScript(strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	want := Request{
		Name: "my job", WorkDir: "/home/anna/sub", MemoryBytes: rt.Some[uint64](200 << 30), TimeSecs: rt.Some(86400.0), CPUsPerTask: rt.Some[uint64](4),
		Cores: rt.Some[uint64](8), GPUs: 2, GPUsBy: "--gres=gpu:a100:",
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
	r, o, err := OfFilter([]byte(`{"cpus-per-task":"2","gpus":"1","mem":"16G","time":"1-00:00:00","array":"1-3","argv":["\/tmp\/my job.sh","x","y;z"]}`), "/tmp")
	want := Request{Name: "my job.sh", WorkDir: "/tmp", MemoryBytes: rt.Some[uint64](16 << 30), TimeSecs: rt.Some(86400.0), CPUsPerTask: rt.Some[uint64](2), Cores: rt.Some[uint64](2), GPUs: 1, GPUsBy: "--gpus="}
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

// The option with the GPUs is known with its type, to advise in it.
func TestGPUsBy(t *testing.T) {
	for args, want := range map[string]string{
		"": "", "--gpus-per-node=2": "--gpus-per-node=", "--gpus-per-node=a100:2 -N2": "--gpus-per-node=a100:", "-G 2": "--gpus=", "--gpus=a100:2": "--gpus=a100:",
		"--gpus=4 -N2": "", "--gres=gpu:2": "--gres=gpu:", "--gres=gpu": "--gres=gpu:", "--gres=gpu:a100": "--gres=gpu:a100:", "--gres=gres/gpu:a100:2": "--gres=gpu:a100:", "--gres=scratch:1": "",
	} {
		o := Options{}
		o.Read(strings.Fields(args))
		if r := Of(o, nil, "/"); r.GPUsBy != want || r.IsUnclear {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// An option whose amount is not known makes the request unclear. One that is left out does not.
func TestUnclear(t *testing.T) {
	for args, want := range map[string]bool{
		"": false, "-N2 -n4 -c2 --mem=4G --time=1:00": false, "--exclusive": false, "--mem-per-cpu=1G -c4": false, "--mem-per-gpu=1G -G 2": false,
		"--mem=0": true, "--mem=x": true, "--time=0": true, "--time=UNLIMITED": true, "-N2 --mem-per-cpu=1G": true, "--exclusive --mem-per-cpu=1G": true,
		"--mem-per-gpu=1G": true, "-N1-4": true, "--gpus-per-task=1": true, "--gpus-per-socket=1": true, "--tres-per-task=cpu:2": true,
		"--gpus=a100:1,v100:1": true, "--gpus-per-node=a100": true, "--gres=gpu:a100:1,gpu:v100:1": true, "-n1 : -n2": true, "hetjob": true, "packjob": true,
	} {
		o := Options{}
		o.Read(strings.Fields(args))
		if r := Of(o, nil, "/"); r.IsUnclear != want {
			t.Errorf("%s: %+v", args, r)
		}
	}
	if r, _, err := OfFilter([]byte(`{"mem":"0?"}`), "/"); err != nil || !r.IsUnclear { // what Slurm 22.05 passes on for --mem=0
		t.Errorf("%+v %v", r, err)
	}
}
