package report

import (
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// Two scripts with one name: each gets the advice for what it needs, whatever ran before.
func TestAdviceIsOfTheSameThing(t *testing.T) {
	run := func(job uint64, mib, limitMiB float64, elapsed time.Duration) *Summary {
		s := ran(job, "n1", mib/1024, 1)
		s.Memory.LimitBytes, s.ElapsedSecs = u(uint64(limitMiB)<<20), rt.Some(elapsed.Seconds())
		s.Memory.PeakPct = rt.Some(mib / limitMiB * 100)
		return s
	}
	const short, long = 10 * time.Minute, 3 * time.Hour
	for _, tt := range []struct {
		name         string
		last         *Summary
		earlier      []*Summary
		memory, time string
		says         string
	}{
		{"another request", run(5, 26.7, 200, short), []*Summary{run(2, 666, 900, short)}, "--mem=48M (or --mem-per-cpu=48M with 1 CPU)", "--time=00:15:00", "the peak was 26.7 MiB of 200 MiB (from this run alone)"},
		{"the same request", run(5, 26.7, 900, short), []*Summary{run(2, 666, 900, long), run(3, 26.6, 900, short), run(4, 670, 900, long)}, "--mem=48M (or --mem-per-cpu=48M with 1 CPU)", "--time=00:13:00", "the peak was 26.7 MiB of 900 MiB (from 2 of 4 runs)"},
		{"the larger one", run(5, 666, 900, long), []*Summary{run(2, 26.7, 900, short), run(3, 26.6, 900, short), run(4, 670, 900, long)}, "", "", "the peak was 666 MiB, 74 % of 900 MiB (from 2 of 4 runs with up to 670 MiB)"},
		{"a request that was too small for others", run(5, 335, 700, short), []*Summary{run(2, 27000, 700, long), run(3, 26000, 700, long)}, "--mem=512M (or --mem-per-cpu=512M with 1 CPU)", "--time=00:15:00", "the peak was 335 MiB of 700 MiB (from 1 of 3 runs)"},
	} {
		j := advised(t, tt.last, tt.earlier...)
		memory, time := adviceOn(j, "memory"), adviceOn(j, "time")
		if memory.Request != tt.memory || !strings.HasPrefix(memory.Text, tt.says) || tt.time != "" && time.Request != tt.time {
			t.Errorf("%s: %+v\n%+v", tt.name, memory, time)
		}
	}
}

// A job that finished far below its request never gets the advice to request more.
func TestNoAdviceToRequestMoreThanPlenty(t *testing.T) {
	for gib := 0.5; gib <= 6; gib += 0.5 {
		for _, factor := range []float64{1.1, 1.3, 1.49, 1.6, 3} {
			s, other := ran(5, "n1", gib, 3600), ran(4, "n1", gib*factor, 3600)
			s.Memory.PeakPct = rt.Some(gib / 8 * 100)
			for _, run := range []*Summary{s, other} {
				run.ElapsedSecs = rt.Some(run.Memory.PeakPct.Or(0) / 100 * 4 * 3600)
			}
			other.ElapsedSecs = rt.Some(s.ElapsedSecs.Or(0) * factor)
			for _, a := range advised(t, s, other).Advice {
				if a.Verdict == More {
					t.Errorf("%v of 8 GiB after %v GiB: %+v", gib, gib*factor, a)
				}
			}
		}
	}
}

// The advice for an array is for each of its tasks, and that for a task too: they have one request.
func TestAdviceForAnArrayIsForAllTasks(t *testing.T) {
	var tasks []*Summary
	for i, gib := range []float64{1, 4, 0.1} {
		s := ran(10+uint64(i), "n1", gib, 3600)
		s.Run.ArrayJobID, s.Run.ArrayTaskID = u(10), u(uint64(i))
		s.Label = s.Run.Label()
		tasks = append(tasks, s)
	}
	array := RollUp("10", tasks)
	list := &JobSummary{Advice: array.Advice}
	if a := adviceOn(list, "memory"); a.Request != "--mem=5G (or --mem-per-cpu=1280M with 4 CPUs)" || !strings.HasPrefix(a.Text, "the highest peak was 4.00 GiB of 8.00 GiB (from 3 runs)") {
		t.Errorf("array: %+v", a)
	}
	if a := adviceOn(list, "time"); !strings.HasPrefix(a.Text, "the longest took 01:00:00 of 04:00:00 (from 3 runs)") {
		t.Errorf("array: %+v", a)
	}
	if a := adviceOn(advised(t, tasks[2], tasks[:2]...), "memory"); a.Text != "the peak was 102 MiB of 8.00 GiB (from 3 runs with up to 4.00 GiB)" || a.Runs != 3 {
		t.Errorf("task: %+v", a)
	}
}

// The time in which a job was suspended is neither run time nor waste.
func TestSuspendedTimeIsNotInAdvice(t *testing.T) {
	s := ran(5, "n1", 1, 14000)
	s.SuspendedSecs = rt.Some(2.5 * 3600) // ElapsedSecs is without it
	s.Run.End = s.Run.Start.Add(3*time.Hour + 30*time.Minute)
	s.Run.GPUs, s.GPUs = "0", []GPU{{GPUPart: GPUPart{InJob: rt.Some(true), BusyPct: rt.Some(20.0), Processes: 1}, MaxBusyPct: rt.Some(100.0)}}
	j := advised(t, s)
	if a := adviceOn(j, "time"); a.Request != "--time=01:30:00" || a.Text != "it took 01:00:00 of 04:00:00 (from this run alone)" {
		t.Errorf("%+v", a)
	}
	if a := adviceOn(j, "cores"); a.Verdict != WellSized {
		t.Errorf("%+v", a)
	}
	if a := adviceOn(j, "gpus"); a.Verdict != WellSized || a.Text != "1 GPU, busy 70 % of the time" {
		t.Errorf("%+v", a)
	}
}
