package environ

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// A tracker makes the run of the text that its Prolog has made: for each environment of a hook of slurmd.
func TestPrologText(t *testing.T) {
	n := 0
	for _, c := range captures(t) {
		if c.context != "prolog_slurmd" {
			continue
		}
		n++
		c.env["PATH"], c.env["SPANK_SECRET"] = "/bin", "x"
		want, err := FromHook(c.env, began.Add(123456789))
		if err != nil {
			t.Fatal(err)
		}
		text := PrologText(c.env, &want)
		got, err := ParsePrologText(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v: %+v, want %+v", c.name, err, got, want)
		}
		if bytes.Contains(text, []byte("PATH=")) || bytes.Contains(text, []byte("SECRET")) {
			t.Errorf("%s: the text has variables that no run needs:\n%q", c.name, text)
		}
		for cut := range text {
			if _, err := ParsePrologText(text[:cut]); err == nil {
				t.Fatalf("%s: the first %d of %d bytes are a run", c.name, cut, len(text))
			}
		}
	}
	if n < 5 {
		t.Errorf("only %d environments of a Prolog", n)
	}
}

// The Prolog has found the node if Slurm did not name it.
func TestPrologTextNode(t *testing.T) {
	run := rt.Run{Identity: rt.Identity{Node: "n7", Start: time.Unix(1, 5).UTC()}}
	got, err := ParsePrologText(PrologText(Env{"SLURM_JOB_ID": "12", "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2"}, &run))
	if err != nil || got.Node != "n7" || !got.Start.Equal(run.Start) || got.GPUs != "GPU-1,GPU-2" {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParsePrologText(f *testing.F) {
	for _, c := range captures(f) {
		if c.context == "prolog_slurmd" {
			f.Add(PrologText(c.env, &rt.Run{Identity: rt.Identity{Node: "n1", Start: began}}))
		}
	}
	f.Add([]byte("SLURM_JOB_ID=1\x00SLURMD_NODENAME=n\x00RT_START=x\x00"))
	f.Add([]byte("RT_START=1\x00"))
	f.Fuzz(func(t *testing.T, text []byte) {
		run, err := ParsePrologText(text)
		if err != nil {
			return
		}
		isWhole := run.JobID.Valid() && run.Node != ""
		if !isWhole || strings.ContainsRune(run.Node, 0) {
			t.Errorf("a run without its job or node: %+v", run)
		}
	})
}
