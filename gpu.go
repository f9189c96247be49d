package rt

import (
	"strconv"
	"strings"
)

// CountGPUs is the number of GPUs in a list of a scheduler: "0,2-3", "GPU-...,MIG-...".
func CountGPUs(list string) (n uint64) {
	if list == "" {
		return 0
	}
	for word := range strings.SplitSeq(list, ",") {
		n++
		first, last, isRange := strings.Cut(word, "-")
		from, err1 := strconv.ParseUint(first, 10, 12)
		to, err2 := strconv.ParseUint(last, 10, 12)
		isNumbers := isRange && err1 == nil && err2 == nil
		if isNumbers && to > from {
			n += to - from
		}
	}
	return n
}

// GPUUse is the use of several GPUs together.
type GPUUse struct {
	Usage    Opt[float64] // fractional GPUs in use
	VRAMUsed Opt[uint64]  // bytes
	Utilized Opt[uint64]  // how many were not idle
}

// Valid reports whether any of its values was read.
func (u *GPUUse) Valid() bool { return u.Usage.Valid() || u.VRAMUsed.Valid() || u.Utilized.Valid() }

// Keys of GPUReading.Detail.
const (
	// BusyOf is what the utilization is of: BusyOfInterval, or one short sample of the driver without it.
	BusyOf         = "busy_of"
	BusyOfInterval = "interval" // the mean since the previous reading
)

// GPUReading holds what a driver reported about one GPU or MIG instance.
type GPUReading struct {
	UUID string // vendor UUID; the PCI address for AMD
	Name string // product name
	Type string // "GPU", "NPU", "TPU"
	Host string // identifier on this host

	Utilization         Opt[float64] // percent of time busy, 0..100; see BusyOf
	VRAMTotal, VRAMUsed Opt[uint64]  // bytes
	Temperature         Opt[uint64]  // degrees Celsius
	Power               Opt[float64] // watts
	Frequency           Opt[uint64]  // MHz
	Cores               Opt[uint64]
	InJob               Opt[bool]         // allocated to the job; absent if that is not known
	Detail              map[string]string // vendor extras: driver version, PCI bus id
}

// GPUProcessReading holds what a driver reported about one process on one GPU.
type GPUProcessReading struct {
	UUID string // of the GPU or MIG instance, as in GPUReading
	PID  uint64

	VRAMUsed    Opt[uint64]  // bytes; 0 after its end
	Utilization Opt[float64] // percent of time that its kernels ran, 0..100
	VRAMPeak    Opt[uint64]  // bytes: the highest of its life; absent unless the driver accounts for processes
}
