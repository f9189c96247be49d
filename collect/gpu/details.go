package gpu

import "github.com/resource-tracker/rt"

// Details are the properties of one GPU that its reading does not have. They are for a
// single report, not for a record. A property that the driver does not have is absent or
// empty.
type Details struct {
	UUID string // as in rt.GPUReading; MIG instances have no Details

	Fan            rt.Opt[uint64] // percent of the highest speed
	ComputeMode    string         // "Exclusive_Process", "Prohibited"; also empty for the default mode
	State          string         // "P0" to "P15" for NVIDIA's; "auto", "low", "high", ... for AMD's
	MemUtilization rt.Opt[uint64] // percent of the time in which its memory was read or written
	MemClock       rt.Opt[uint64] // MHz

	PowerLimit, MinPowerLimit, MaxPowerLimit rt.Opt[float64] // watts: the current limit and its bounds
	MaxClock, MaxMemClock                    rt.Opt[uint64]  // MHz

	Architecture string // "Hopper"
	Firmware     string // version of its VBIOS
}

// WithDetails makes each reading include Details, see Source.Details.
func WithDetails() Option { return func(s *Source) { s.details = true } }

// Details appends the details that the newest Read found. There are none without
// WithDetails.
func (s *Source) Details(dst []Details) []Details { return append(dst, s.now.details...) }

// detailer is a driver that has details.
type detailer interface{ enableDetails() }

// withDetails makes a driver read details if the source needs them.
func (s *Source) withDetails(d driver) driver {
	if of, ok := d.(detailer); ok && s.details {
		of.enableDetails()
	}
	return d
}
