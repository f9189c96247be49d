package collect

import "github.com/resource-tracker/rt"

// JobEvent is an event of a watched job on this node.
type JobEvent uint8

// The events of a job.
const (
	// JobAppeared: the job's cgroup exists and can be read.
	JobAppeared JobEvent = iota + 1
	// JobStepEnded: the directory of a step or task was removed. If it was the job's
	// last one, the job's own counters stay readable for another 5-10 ms only.
	JobStepEnded
	// JobEnded: the job's cgroup is empty or was removed. JobAppeared may follow if
	// the scheduler creates it again for the job's next step.
	JobEnded
	// JobNearLimit: the job is near its memory limit, or the kernel has just killed one of
	// its processes for that. A snapshot taken now shows how much each process uses.
	JobNearLimit
)

// Job is a job with a watched cgroup.
type Job interface {
	// Events delivers the events of the job. While it runs, the recorder receives
	// without delay. A closed channel delivers no more events.
	Events() <-chan JobEvent
	// Read fills s.Job, its Phase included, and changes nothing else in s. A cgroup
	// that does not exist (yet, or any more) is a phase and no error. The recorder
	// never makes two calls at the same time.
	Read(s *rt.Snapshot) error
}

// StepsName is the name of the readings of a job's steps and tasks in Options.Drop.
const StepsName = "steps"

// StepSkipper is a Job that can leave out its steps and tasks to cost less.
type StepSkipper interface {
	// SkipSteps leaves them out from the next reading on, or includes them again.
	SkipSteps(on bool)
}

// Acknowledger is a Job or a Source that repeats the final figures of something that
// ended in every reading until one of them is stored.
type Acknowledger interface {
	// Written is called with each snapshot after it was passed to the sinks.
	Written(s *rt.Snapshot)
}

// EventSource is a Job or a Source that has events for the ledger in addition to its
// readings.
type EventSource interface {
	// Notes returns the events since the last call, each with its time.
	Notes() []rt.Event
}

// optional returns the job and the sources that implement T.
func optional[T any](r *Recorder) (list []T) {
	if v, ok := r.o.Job.(T); ok {
		list = append(list, v)
	}
	for _, src := range r.o.Sources {
		if v, ok := src.(T); ok {
			list = append(list, v)
		}
	}
	return list
}

// forwardEvents passes the events of the job and the sources to the ledger, with times on
// the clock of the snapshots.
func (r *Recorder) forwardEvents() {
	if r.o.Ledger == nil {
		return
	}
	for _, s := range r.eventSources {
		notes := s.Notes()
		if len(notes) == 0 {
			continue
		}
		_, _, ahead := r.clock.now()
		for _, e := range notes {
			e.Time = e.Time.Add(-ahead)
			r.o.Ledger.Event(e)
		}
	}
}
