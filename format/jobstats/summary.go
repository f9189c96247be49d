// Package jobstats writes the summary of a job that jobstats and Job Defense Shield read from the AdminComment of Slurm's
// accounting.
package jobstats

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// Prefix is how a summary begins in AdminComment: the version of its form.
const Prefix = "JS1:"

// ErrUnknown means that the CPUs or the memory on a node, or their use, is not known. Jobstats cannot show such a job.
var ErrUnknown = errors.New("a figure that jobstats needs is not known")

// summary is the document. A figure that is not known is absent, never 0.
type summary struct {
	Nodes     map[string]*node `json:"nodes"`
	TotalTime rt.Opt[float64]  `json:"total_time,omitzero"` // seconds from the start of the job to its end
	GPUs      int              `json:"gpus"`
}

// node is what the job had and used on a node: bytes, seconds of CPU time, and GPUs by their number.
type node struct {
	CPUs           rt.Opt[uint64]     `json:"cpus,omitzero"`
	TotalMemory    rt.Opt[uint64]     `json:"total_memory,omitzero"`
	UsedMemory     rt.Opt[uint64]     `json:"used_memory,omitzero"`
	TotalTime      rt.Opt[float64]    `json:"total_time,omitzero"`
	GPUTotalMemory map[string]uint64  `json:"gpu_total_memory,omitempty"`
	GPUUsedMemory  map[string]uint64  `json:"gpu_used_memory,omitempty"`
	GPUUtilization map[string]float64 `json:"gpu_utilization,omitempty"` // percent
}

// Encode returns the text for AdminComment. Jobstats judges a job by it, so it has no figure that is only a bound.
func Encode(j *report.JobSummary) (string, error) {
	s := summary{Nodes: map[string]*node{}, TotalTime: rt.Map(j.ElapsedSecs, math.Round)}
	for _, of := range j.Runs {
		n := nodeOf(of)
		s.Nodes[of.Run.Node] = n
		s.GPUs += countOwn(of.GPUs)
		isKnown := n.CPUs.Valid() && n.TotalMemory.Valid() && n.UsedMemory.Valid() && n.TotalTime.Valid()
		if !isKnown {
			return "", ErrUnknown
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	to := gzip.NewWriter(&packed)
	_, err = to.Write(text)
	err = errors.Join(err, to.Close())
	return Prefix + base64.StdEncoding.EncodeToString(packed.Bytes()), err
}

func nodeOf(of *report.Summary) *node {
	n := &node{CPUs: of.Run.AllocCPUs, TotalMemory: cmp.Or(of.Run.AllocMem, of.Memory.LimitBytes)}
	if of.CPU.UsedMark == report.Exact {
		n.TotalTime = rt.Map(of.CPU.UsedSecs, tenths)
	}
	if of.Memory.PeakMark == report.Exact {
		n.UsedMemory = of.Memory.PeakBytes
	}
	if countOwn(of.GPUs) == 0 {
		return n
	}
	n.GPUTotalMemory, n.GPUUsedMemory, n.GPUUtilization = map[string]uint64{}, map[string]uint64{}, map[string]float64{}
	number := 0
	for i := range of.GPUs {
		g := &of.GPUs[i]
		if !g.InJob.Or(false) {
			continue
		}
		name := strconv.Itoa(number)
		number++
		set(n.GPUTotalMemory, name, g.VRAMTotalBytes)
		peak, _ := g.VRAMPeak() // between readings it can be higher, as in jobstats
		set(n.GPUUsedMemory, name, peak)
		set(n.GPUUtilization, name, rt.Map(g.Busy(), tenths))
	}
	return n
}

// countOwn counts the GPUs that were allocated to the job.
func countOwn(gpus []report.GPU) (n int) {
	for i := range gpus {
		if gpus[i].InJob.Or(false) {
			n++
		}
	}
	return n
}

func set[T any](figures map[string]T, name string, figure rt.Opt[T]) {
	if v, isKnown := figure.Get(); isKnown {
		figures[name] = v
	}
}

func tenths(v float64) float64 { return math.Round(v*10) / 10 }
