package rt

// ProcessReading holds what was read of one process of the job: one of those that
// used most CPU time or memory. Its arguments are never read.
type ProcessReading struct {
	PID   uint64
	Start uint64 // ticks after boot, /proc/<pid>/stat field 22: with PID it names the process
	Comm  string // /proc/<pid>/comm: at most 15 bytes, valid UTF-8

	Step string      // as in StepReading; empty where it is not known
	Task Opt[uint64] // the task's number on this node

	UserTicks, SystemTicks Opt[uint64] // its own, in USER_HZ, /proc/<pid>/stat
	RSS                    Opt[uint64] // bytes, /proc/<pid>/statm
	PSS                    Opt[uint64] // bytes, smaps_rollup; read at some snapshots only, for it is dear
	Threads                Opt[uint64]
	ReadBytes, WriteBytes  Opt[uint64] // /proc/<pid>/io, its reaped children included
}

// GPUProcessReading holds what a driver said of one process on one GPU.
type GPUProcessReading struct {
	UUID string // of the GPU or MIG instance, as in GPUReading
	PID  uint64

	VRAMUsed    Opt[uint64]  // bytes
	Utilization Opt[float64] // percent of time that its kernels ran, 0..100
}
