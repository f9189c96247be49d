package tracker

import "github.com/resource-tracker/rt"

// NoGPUs is the GPU source of a tracker that looks for none: the list of GPUs in samples
// is empty, their sums (section 7.2) are 0, and no CSV row ends in a comma (T-CSV-06).
type NoGPUs struct{}

// Name is what the ledger calls the source.
func (NoGPUs) Name() string { return "gpu" }

// Close does nothing.
func (NoGPUs) Close() error { return nil }

// Read sets the sums.
func (NoGPUs) Read(s *rt.Snapshot) error {
	s.Node.GPUUsage.Set(0)
	s.Node.GPUVRAMUsed.Set(0)
	s.Node.GPUUtilized.Set(0)
	return nil
}
