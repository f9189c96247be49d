package report

import (
	"testing"

	"github.com/resource-tracker/rt"
)

// Fewer GPUs are advised only if no run of the sample used them and all of them were read.
func TestGPUsOfAllRuns(t *testing.T) {
	on := func(job uint64, gpus string, busy ...float64) *Summary {
		s := ran(job, "n1", 1, 100)
		s.Run.GPUs, s.Run.ArrayJobID, s.Run.Meta.JobName = gpus, u(1), "wrap" // the tasks of an array belong together
		for _, b := range busy {
			s.GPUs = append(s.GPUs, GPU{GPUPart: GPUPart{BusyPct: rt.Some(b)}, MaxBusyPct: rt.Some(b)})
		}
		return s
	}
	for _, tt := range []struct {
		name    string
		earlier *Summary
		last    *Summary
		request string
		verdict Verdict
	}{
		{"idle", on(4, "0,1", 0, 0), on(5, "0,1", 0, 0), "no GPU", Less},
		{"one was used by the other", on(4, "0,1", 80, 0), on(5, "0,1", 0, 0), "--gpus-per-node=1", Less},
		{"all were used by the other", on(4, "0,1", 80, 90), on(5, "0,1", 0, 0), "", NotKnown},
		{"those of the other were not read", on(4, "0,1"), on(5, "0,1", 0, 0), "", NotKnown},
		{"one was not read", on(4, "0,1", 0, 0), on(5, "0,1", 0), "", NotKnown},
	} {
		if a := adviceOn(advised(t, tt.last, tt.earlier), "gpus"); a.Request != tt.request || a.Verdict != tt.verdict {
			t.Errorf("%s: %+v", tt.name, a)
		}
	}
}

// A job that did not finish gets the line that its GPUs were idle, and a job that is not over does not.
func TestIdleGPUsOfAJobThatDidNotFinish(t *testing.T) {
	for outcome, want := range map[rt.Outcome]string{
		rt.OutcomeFailed: "1 of 2 GPUs busy at no reading", rt.OutcomeCancelled: "1 of 2 GPUs busy at no reading", rt.OutcomeTimeout: "1 of 2 GPUs busy at no reading",
		rt.OutcomeOOM: "1 of 2 GPUs busy at no reading", rt.OutcomeTerminated: "1 of 2 GPUs busy at no reading", rt.OutcomeNone: "",
	} {
		s := ran(5, "n1", 1, 100)
		s.Run.GPUs, s.GPUs = "0,1", []GPU{{GPUPart: GPUPart{BusyPct: rt.Some(0.0)}, MaxBusyPct: rt.Some(0.0)}, {GPUPart: GPUPart{BusyPct: rt.Some(50.0), Processes: 1}, MaxBusyPct: rt.Some(90.0)}}
		if s.Run.Outcome = outcome; outcome == rt.OutcomeNone {
			s.Run.State = rt.StateRunning
		}
		a := adviceOn(advised(t, s), "gpus")
		if a.Text != want || a.Request != "" {
			t.Errorf("%q: %+v", outcome, a)
		}
		s.GPUs[0].MaxBusyPct.Clear() // it was not read
		if a := adviceOn(advised(t, s), "gpus"); a.Text != "" {
			t.Errorf("%q, not read: %+v", outcome, a)
		}
	}
}
