package collect

import "github.com/resource-tracker/rt"

// JobEvent is something that happened to a watched job on this node.
type JobEvent uint8

// The events of a job.
const (
	// JobAppeared: the job's cgroup was made and can be read.
	JobAppeared JobEvent = iota + 1
	// JobStepEnded: a directory of a step or task was removed. Where it was the
	// job's last one, the job's own counters stay readable only 5-10 ms longer.
	JobStepEnded
	// JobEnded: the job's cgroup emptied or was removed. JobAppeared may follow where
	// a scheduler makes it anew for the job's next step.
	JobEnded
	// JobShort: the job is short of memory, or a process of it was just killed for
	// that. A snapshot taken now shows who had how much.
	JobShort
)

// Job is a job whose cgroup is watched.
type Job interface {
	// Events delivers what happens to the job. While it runs, the recorder receives
	// without delay. A closed channel has no more news.
	Events() <-chan JobEvent
	// Read fills s.Job, its Phase included, and touches nothing else of s. A
	// cgroup that is not there (yet, or any more) is a phase and no error. The
	// recorder never calls it twice at the same time.
	Read(s *rt.Snapshot) error
}

// StepsName is what Options.Drop calls the readings of a job's steps and tasks.
const StepsName = "steps"

// Shedder is a Job that can leave its steps and tasks out when it is asked to cost less.
type Shedder interface {
	// Shed leaves them out from the next reading on, or takes them up again.
	Shed(on bool)
}

// Keeper is a Job or a Source that tells of what ended in every reading until it
// hears that one of them was written.
type Keeper interface {
	Written(s *rt.Snapshot)
}

// Noter is a Job or a Source that has news for the ledger beside its readings.
type Noter interface {
	// Notes returns the news since it was asked last, each with its time.
	Notes() []rt.Event
}

// notes hands the news of the job and the sources to the ledger.
func (r *Recorder) notes() {
	r.notesOf(r.o.Job)
	for _, src := range r.o.Sources {
		r.notesOf(src)
	}
}

func (r *Recorder) notesOf(from any) {
	n, ok := from.(Noter)
	if !ok || r.o.Ledger == nil {
		return
	}
	for _, e := range n.Notes() {
		r.o.Ledger.Event(e)
	}
}

// keep tells the job and the sources that the snapshot is written.
func (r *Recorder) keep() {
	if k, ok := r.o.Job.(Keeper); ok {
		k.Written(&r.snap)
	}
	for _, src := range r.o.Sources {
		if k, ok := src.(Keeper); ok {
			k.Written(&r.snap)
		}
	}
}
