package collect

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
)

// stepsJob is a job that repeats its ended steps until they are stored, and that has
// events for the ledger.
type stepsJob struct {
	*fakeJob
	ended []rt.StepReading
	news  []rt.Event
}

func (j *stepsJob) Read(s *rt.Snapshot) error {
	j.mu.Lock()
	s.Steps = append(s.Steps, j.ended...)
	j.mu.Unlock()
	return j.fakeJob.Read(s)
}

func (j *stepsJob) Written(s *rt.Snapshot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ended = slices.DeleteFunc(j.ended, func(e rt.StepReading) bool { return slices.Contains(s.Steps, e) })
}

func (j *stepsJob) Notes() []rt.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	news := j.news
	j.news = nil
	return news
}

// stepSink keeps the steps of each row.
type stepSink struct{ rows [][]string }

func (k *stepSink) Put(s *rt.Snapshot) error {
	var names []string
	for _, st := range s.Steps {
		names = append(names, st.Step)
	}
	k.rows = append(k.rows, names)
	return nil
}

// A step that ended is in one written snapshot, however often the job is read at events.
// The job's notes for the ledger come with their own time.
func TestEndedStepsAreWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, rows := &keeper{}, &stepSink{}
		j := &stepsJob{fakeJob: newJob()}
		j.set(rt.JobPresent, usage(1), usage(1))
		end := func(step string) {
			j.mu.Lock()
			j.ended = append(j.ended, rt.StepReading{Step: step, Ended: true})
			j.mu.Unlock()
			j.events <- JobStepEnded
			j.events <- JobStepEnded
		}
		happened := time.Now().Add(-time.Hour)
		o := jobOptions(k, j.fakeJob)
		o.Job, o.Sinks = j, []Sink{rows}
		record(t, o, nil, func() {
			time.Sleep(1500 * ms) // rows at 0 and 1 s
			end("0")
			j.mu.Lock()
			j.news = []rt.Event{{Time: happened, Kind: "job", Name: "oom_kill"}}
			j.mu.Unlock()
			time.Sleep(2 * time.Second) // at 2 s and 3 s
			end("1")
			j.set(rt.JobGone, none, none)
			j.events <- JobEnded
		})
		if d := cmp.Diff([][]string{nil, nil, {"0"}, nil, {"1"}}, rows.rows); d != "" {
			t.Errorf("steps of each row (-want +got):\n%s", d)
		}
		i := slices.IndexFunc(k.events, func(e rt.Event) bool { return e.Name == "oom_kill" })
		if i < 0 || !k.events[i].Time.Equal(happened) {
			t.Errorf("the ledger has %v", k.events)
		}
	})
}
