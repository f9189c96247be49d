package gpu

import "github.com/resource-tracker/rt"

// Details is what a driver says of one GPU beyond its reading. It is for those who
// ask once, not for a record. What was not said is absent or empty.
type Details struct {
	UUID string // as in rt.GPUReading; MIG instances have none of this

	Fan            rt.Opt[uint64] // percent of its highest speed
	ComputeMode    string         // "Exclusive_Process", "Prohibited"; empty for the default one too
	State          string         // "P0" to "P15" of NVIDIA's; "auto", "low", "high", ... of AMD's
	MemUtilization rt.Opt[uint64] // percent of time in which its memory was read or written
	MemClock       rt.Opt[uint64] // MHz

	PowerLimit, MinPowerLimit, MaxPowerLimit rt.Opt[float64] // watts: the one that is set, and its bounds
	MaxClock, MaxMemClock                    rt.Opt[uint64]  // MHz

	Architecture string // "Hopper"
	Firmware     string // version of its VBIOS
}

// WithDetails has each reading ask for Details too, see Source.Details.
func WithDetails() Option { return func(s *Source) { s.details = true } }

// Details appends what the newest Read found of the GPUs. There is nothing without
// WithDetails.
func (s *Source) Details(dst []Details) []Details { return append(dst, s.now.details...) }

// detailer is a driver that has details.
type detailer interface{ askDetails() }

// detailed has a driver ask for details where the source wants them.
func (s *Source) detailed(d driver) driver {
	if of, ok := d.(detailer); ok && s.details {
		of.askDetails()
	}
	return d
}
