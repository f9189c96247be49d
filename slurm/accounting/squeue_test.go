package accounting

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// squeue writes a program that prints a text.
func squeue(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "squeue")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestQueue(t *testing.T) {
	program := squeue(t, `m=${SQUEUE_FORMAT%%%*}
echo "slurm_load_jobs: something else"; cat <<END
${m}12|12|anna|gpu|RUNNING|None|n[7-8]|2|16|1772366400|1772459784|5:00|1-02:03:04${m}chem${m}a|b
${m}15|13_2|anna|main|PENDING|Priority||1|1|N/A|N/A|0:00|UNLIMITED${m}${m}x
12|12|bert|main|RUNNING|None|n9|1|1|1772366400|5:00|1:00
99|99|bert|main|RUNNING|None|n9|1|1|1772366400|5:00|1:00
${m}17|17+1|bert|main|COMPLETING|None|n1|1|x|1772366400|N/A|INVALID|30:00${m}chem${m}x
${m}18|18|bert|main|RUNNING
END
`)
	list, err := Queue(t.Context(), program, nil, nil)
	if err != nil || len(list) != 3 {
		t.Fatalf("%d jobs, %v", len(list), err)
	}
	first := list[0]
	first.Start = first.Start.UTC()
	want := Queued{
		JobID: 12, Label: "12", Name: "a|b", User: "anna", Account: "chem", Partition: "gpu", State: "RUNNING", Reason: "None", NodeList: "n[7-8]",
		Nodes: rt.Some[uint64](2), Cores: rt.Some[uint64](16), Start: first.Start, End: first.Start.Add(93384 * time.Second), RanSecs: rt.Some(300.0), LimitSecs: rt.Some(93784.0),
	}
	if diff := cmp.Diff(want, first, cmp.Comparer(func(a, b rt.Opt[uint64]) bool { return a == b }), cmp.Comparer(func(a, b rt.Opt[float64]) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	waits := list[1]
	if want := "x\n12|12|bert|main|RUNNING|None|n9|1|1|1772366400|5:00|1:00\n99|99|bert|main|RUNNING|None|n9|1|1|1772366400|5:00|1:00"; waits.Name != want {
		t.Errorf("a name that looks like two records: %q", waits.Name)
	}
	if waits.IsRunning() || !waits.Start.IsZero() || waits.LimitSecs.Valid() || waits.Label != "13_2" {
		t.Errorf("a job that waits: %+v", waits)
	}
	ends := list[2]
	if !ends.IsRunning() || ends.Cores.Valid() || ends.RanSecs.Valid() || ends.LimitSecs != rt.Some(1800.0) {
		t.Errorf("a job that ends: %+v", ends)
	}
}

func TestQueueArguments(t *testing.T) {
	program := squeue(t, `for a; do case $a in --states=all|--user=a,b|--jobs=1,2_3) n=$((n + 1)) ;; esac; done; m=${SQUEUE_FORMAT%%%*}; [ $n = 3 ] && echo "${m}1|1|a|p|RUNNING|None|n1|1|1|1|N/A|0:01|1:00${m}${m}x"`)
	if list, err := Queue(t.Context(), program, []string{"a", "b"}, []string{"1", "2_3"}); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	program = squeue(t, `echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1`)
	if list, err := Queue(t.Context(), program, nil, []string{"1"}); err != nil || len(list) != 0 {
		t.Errorf("a job that Slurm does not know: %v, %v", list, err)
	}
	program = squeue(t, `echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1`)
	if _, err := Queue(t.Context(), program, nil, nil); err == nil {
		t.Error("no error without a controller")
	}
}

// A job waits if it has no nodes yet. All other states that squeue shows are of a job that has them.
func TestQueueStates(t *testing.T) {
	for _, state := range []string{"RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"} {
		if q := (Queued{State: state}); !q.IsRunning() {
			t.Errorf("%s waits", state)
		}
	}
	for _, state := range []string{"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT", "REVOKED"} {
		if q := (Queued{State: state}); q.IsRunning() || q.HasEnded() {
			t.Errorf("%s is running or has ended", state)
		}
	}
	for _, state := range []string{"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "DEADLINE", "BOOT_FAIL"} {
		if q := (Queued{State: state}); q.IsRunning() || q.IsWaiting() || !q.HasEnded() {
			t.Errorf("%s has not ended", state)
		}
	}
}

// The name of an array or of a heterogeneous job names all of its parts, also those that wait.
func TestQueuedMatches(t *testing.T) {
	for _, tt := range []struct {
		q     Queued
		names string
		not   string
	}{
		{Queued{JobID: 12, Label: "12"}, "12", "1 2 12_1 12+0 120"},
		{Queued{JobID: 4715, Label: "4713_2"}, "4713_2 4713 4715", "4713_1 4713_20 471 4713+2"},
		{Queued{JobID: 80, Label: "80_[1-9%2]"}, "80 80_3", "8 80_ 81_3 81"},
		{Queued{JobID: 61, Label: "60+1"}, "60 61 60+1", "60+0 60_1 6"},
	} {
		for _, name := range strings.Fields(tt.names) {
			if !tt.q.Matches(name) {
				t.Errorf("%s is not %s", tt.q.Label, name)
			}
		}
		for _, name := range strings.Fields(tt.not) {
			if tt.q.Matches(name) {
				t.Errorf("%s is %s", tt.q.Label, name)
			}
		}
	}
}
