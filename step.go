package rt

// StepReading holds what was read of the cgroup of one step on this node, or of one of its
// tasks. A step that has ended is in the first snapshot after its end, with its last
// figures, and in no later one.
type StepReading struct {
	Step  string      // "0", "batch", "extern", "interactive"
	Task  Opt[uint64] // the task's number: on this node (v1), of its directory (v2: on this node in Slurm 22.05, in the step in 24.11); absent for the step as a whole
	Ended bool        // its cgroup is gone: these are its last figures

	// As in JobReading: without slurmstepd.
	CPUUsage, CPUUser, CPUSystem           Opt[uint64] // microseconds
	MemCurrent, MemPeak, Anon, File, Shmem Opt[uint64] // bytes
	PageFaults, MajorFaults, EventsOOMKill Opt[uint64] // counts
	Pids                                   Opt[uint64] // processes
	IOReadBytes, IOWriteBytes              Opt[uint64] // bytes, if the controller is on
}
