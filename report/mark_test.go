package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// stepOf reads a step with the figures of two readings, and a task that was read later.
func stepOf(events []rt.Event, state rt.State, steps ...[]rt.StepReading) *Summary {
	var list []rt.Snapshot
	for i, s := range steps {
		list = append(list, rt.Snapshot{Seq: int64(i + 1), Boot: int64(i+1) * 1e9, Wall: int64(i+1) * 1e9, Job: rt.JobReading{Phase: rt.JobPresent, CPUUsage: u(uint64(i) * 600_000)}, Steps: s})
	}
	list[0].Job = rt.JobReading{Phase: rt.JobPending}
	list[len(list)-1].Reason = rt.ReasonLast
	run := slurmRun()
	run.State = state
	s, err := Summarize(run, events, seq(list))
	if err != nil {
		panic(err)
	}
	return s
}

func stepReading(task rt.Opt[uint64], usec, peak uint64, ended bool) rt.StepReading {
	return rt.StepReading{Step: "batch", Task: task, Ended: ended, CPUUsage: u(usec), CPUUser: u(usec), CPUSystem: u(0), MemPeak: u(peak), PageFaults: u(usec / 1000), Pids: u(1)}
}

// A step or task that was not read at its end has marks, also where the ledger does not name it. A step is never
// smaller than its task.
func TestStepsThatWereNotReadAtTheirEnd(t *testing.T) {
	event := func(detail string) rt.Event {
		return rt.Event{Kind: "job", Name: "tasks", Status: "estimated", Detail: detail + " of the last reading before"}
	}
	const ofStep, ofTask = "the end of step batch was not read; its figures are", "the end of task 0 of step batch was not read; its figures are"
	none := rt.None[uint64]()
	for _, tt := range []struct {
		name           string
		events         []rt.Event
		state          rt.State
		step, task     [2]uint64 // microseconds and bytes
		hasEnded       bool
		want, wantTask Figures
	}{
		{"read", nil, rt.StateEnded, [2]uint64{500_001, 60}, [2]uint64{500_002, 50}, true, figuresOf(0.500001, Exact, 60, Exact), figuresOf(0.500002, Exact, 50, Exact)},
		{"the step", []rt.Event{event(ofStep)}, rt.StateEnded, [2]uint64{190_000, 60}, [2]uint64{500_000, 50}, true, figuresOf(0.5, AtLeast, 60, AtLeast), figuresOf(0.5, Exact, 50, Exact)},
		{"without an event", nil, rt.StateEnded, [2]uint64{190_000, 40}, [2]uint64{500_000, 50}, true, figuresOf(0.5, AtLeast, 50, AtLeast), figuresOf(0.5, Exact, 50, Exact)},
		{"the task", []rt.Event{event(ofTask)}, rt.StateEnded, [2]uint64{600_000, 60}, [2]uint64{500_000, 50}, true, figuresOf(0.6, Exact, 60, Exact), figuresOf(0.5, AtLeast, 50, AtLeast)},
		{"the task, with the rest of its step", []rt.Event{event("the end of task 0 of step batch was not read; its CPU time is what its step used beyond the other tasks; all else is")}, rt.StateEnded,
			[2]uint64{500_000, 60}, [2]uint64{500_000, 50}, true, figuresOf(0.5, Exact, 60, Exact), figuresOf(0.5, Exact, 50, AtLeast)},
		{"another step", []rt.Event{event("the end of step 0 was not read; its figures are"), event("the end of task 1 of step batch was not read; its figures are")}, rt.StateEnded,
			[2]uint64{600_000, 60}, [2]uint64{500_000, 50}, true, figuresOf(0.6, Exact, 60, Exact), figuresOf(0.5, Exact, 50, Exact)},
		{"too many events", []rt.Event{{Kind: "spool", Name: "job/tasks", Status: "repeated", Detail: "100 further events"}}, rt.StateEnded,
			[2]uint64{600_000, 60}, [2]uint64{500_000, 50}, true, figuresOf(0.6, AtLeast, 60, AtLeast), figuresOf(0.5, AtLeast, 50, AtLeast)},
		{"running", nil, rt.StateRunning, [2]uint64{600_000, 60}, [2]uint64{500_000, 50}, false, figuresOf(0.6, Exact, 60, Exact), figuresOf(0.5, Exact, 50, Exact)},
	} {
		s := stepOf(tt.events, tt.state, nil, []rt.StepReading{stepReading(none, tt.step[0], tt.step[1], tt.hasEnded), stepReading(rt.Some[uint64](0), tt.task[0], tt.task[1], tt.hasEnded)})
		st := s.Steps[0]
		if st.Used != tt.want.Used || st.PeakMemory != tt.want.PeakMemory {
			t.Errorf("%s: the step has %+v %+v, want %+v", tt.name, st.Used, st.PeakMemory, tt.want)
		}
		if task := st.Tasks[0]; task.Used != tt.wantTask.Used || task.PeakMemory != tt.wantTask.PeakMemory {
			t.Errorf("%s: the task has %+v %+v, want %+v", tt.name, task.Used, task.PeakMemory, tt.wantTask)
		}
		if st.PageFaults.Or(0) < st.Tasks[0].PageFaults.Or(0) {
			t.Errorf("%s: the step has %v page faults, its task %v", tt.name, st.PageFaults, st.Tasks[0].PageFaults)
		}
		job := Jobs([]*Summary{s})[0]
		if job.Steps[0].Used != tt.want.Used || job.Steps[0].PeakMemory != tt.want.PeakMemory {
			t.Errorf("%s: the job's step has %+v", tt.name, job.Steps[0])
		}
		var text strings.Builder
		if err := WriteDetails(&text, s, TextOptions{Zone: time.UTC}); err != nil {
			t.Fatal(err)
		}
		if shown := "batch       " + tt.want.Used.Text() + " CPU, peak " + tt.want.PeakMemory.Text(); !strings.Contains(text.String(), shown) {
			t.Errorf("%s: no %q in\n%s", tt.name, shown, text.String())
		}
		if hasNote := strings.Contains(text.String(), "step batch was not read"); hasNote {
			t.Errorf("%s: the note repeats what the marks say:\n%s", tt.name, text.String())
		}
	}
}

func figuresOf(secs float64, used Mark, bytes uint64, peak Mark) Figures {
	return Figures{Used: Used{rt.Some(secs), used}, PeakMemory: PeakMemory{u(bytes), peak}}
}

// The figures of a run are a lower bound if its beginning or its end was not read. The report, JSON and the delivered
// figures say so.
func TestUnreadPartsAreMarked(t *testing.T) {
	part := func(from, to int, reason rt.Reason) []rt.Snapshot {
		list := jobSnapshots()
		list = append([]rt.Snapshot(nil), list[from:len(list)-to]...)
		for i := range list {
			if list[i].Job.Phase == rt.JobPresent {
				list[i].Job.IOReadBytes, list[i].Job.IOWriteBytes = u(uint64(i)<<20), u(0)
			}
		}
		list[len(list)-1].Reason = reason
		return list
	}
	lost := slurmRun()
	lost.Outcome = rt.OutcomeLost
	running := slurmRun()
	running.State, running.Outcome = rt.StateRunning, rt.OutcomeNone
	unseen := rt.Event{Kind: "job", Name: "tasks", Status: "unseen", Detail: "2 other tasks of step 0 go on"}
	for _, tt := range []struct {
		name       string
		run        rt.Run
		events     []rt.Event
		list       []rt.Snapshot
		used, peak Mark
	}{
		{"whole", slurmRun(), nil, part(0, 0, rt.ReasonLast), Exact, Exact},
		{"running", running, nil, part(0, 100, rt.ReasonTick), Exact, Exact},
		{"lost", lost, nil, part(0, 100, rt.ReasonTick), AtLeast, AtLeast},
		{"the tracker was stopped", slurmRun(), nil, part(0, 100, rt.ReasonStop), AtLeast, AtLeast},
		{"the tracker came late", slurmRun(), nil, part(3, 0, rt.ReasonLast), AtLeast, Exact},
		{"other tasks went on", slurmRun(), []rt.Event{unseen}, part(0, 0, rt.ReasonLast), AtLeast, AtLeast},
	} {
		s := summarized(t, example{run: tt.run, events: tt.events, snapshots: tt.list})
		if s.CPU.UsedMark != tt.used || s.IO.Mark != tt.used || s.Memory.PeakMark != tt.peak {
			t.Errorf("%s: CPU %+v, memory %+v, I/O %+v", tt.name, s.CPU.Used, s.Memory.PeakMemory, s.IO)
		}
		text, err := json.Marshal(s.Delivered())
		var d DeliveredFigures
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		back := d.Summary()
		if err != nil || back.CPU.Used != s.CPU.Used || back.Memory.PeakMemory != s.Memory.PeakMemory {
			t.Errorf("%s: %v; delivered %+v %+v", tt.name, err, back.CPU.Used, back.Memory.PeakMemory)
		}
		job := Jobs([]*Summary{s})[0]
		for form, want := range map[string]string{"oneline": "CPU " + string(tt.used), "markdown": "| CPU | " + string(tt.used)} {
			var b strings.Builder
			if err := Write(&b, job, form, TextOptions{Zone: time.UTC}); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(b.String(), want) || tt.used == Exact && strings.Contains(b.String(), "least") {
				t.Errorf("%s: %q and its mark in %s", tt.name, want, b.String())
			}
		}
	}
}
