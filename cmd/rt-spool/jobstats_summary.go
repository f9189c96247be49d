package main

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

// jobstatsPrefix is how a summary begins in AdminComment: the version of its form.
const jobstatsPrefix = "JS1:"

// errUnknown means that the CPUs or the memory on a node, or their use, is not known. Jobstats cannot show such a job.
var errUnknown = errors.New("a figure that jobstats needs is not known")

// jobstatsSummary is what jobstats and Job Defense Shield read from the AdminComment of Slurm's accounting. A figure that is
// not known is absent, never 0.
type jobstatsSummary struct {
	Nodes     map[string]*jobstatsNode `json:"nodes"`
	TotalTime rt.Opt[float64]          `json:"total_time,omitzero"` // seconds from the start of the job to its end
	GPUs      int                      `json:"gpus"`
}

// jobstatsNode is what the job had and used on a node: bytes, seconds of CPU time, and GPUs by their number.
type jobstatsNode struct {
	CPUs           rt.Opt[uint64]     `json:"cpus,omitzero"`
	TotalMemory    rt.Opt[uint64]     `json:"total_memory,omitzero"`
	UsedMemory     rt.Opt[uint64]     `json:"used_memory,omitzero"`
	TotalTime      rt.Opt[float64]    `json:"total_time,omitzero"`
	GPUTotalMemory map[string]uint64  `json:"gpu_total_memory,omitempty"`
	GPUUsedMemory  map[string]uint64  `json:"gpu_used_memory,omitempty"`
	GPUUtilization map[string]float64 `json:"gpu_utilization,omitempty"` // percent
}

// encodeJobstats returns the text for AdminComment. Jobstats judges a job by it, so it has no figure that is only a bound.
func encodeJobstats(j *report.JobSummary) (string, error) {
	s := jobstatsSummary{Nodes: map[string]*jobstatsNode{}, TotalTime: rt.Map(j.ElapsedSecs, math.Round)}
	for _, of := range j.Runs {
		n := jobstatsOf(of)
		s.Nodes[of.Run.Node] = n
		s.GPUs += countOwn(of.GPUs)
		isKnown := n.CPUs.Valid() && n.TotalMemory.Valid() && n.UsedMemory.Valid() && n.TotalTime.Valid()
		if !isKnown {
			return "", errUnknown
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
	return jobstatsPrefix + base64.StdEncoding.EncodeToString(packed.Bytes()), err
}

func jobstatsOf(of *report.Summary) *jobstatsNode {
	n := &jobstatsNode{CPUs: of.Run.AllocCPUs, TotalMemory: cmp.Or(of.Run.AllocMem, of.Memory.LimitBytes)}
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
		setKnown(n.GPUTotalMemory, name, g.VRAMTotalBytes)
		peak, _ := g.VRAMPeak() // between readings it can be higher, as in jobstats
		setKnown(n.GPUUsedMemory, name, peak)
		setKnown(n.GPUUtilization, name, rt.Map(g.Busy(), tenths))
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

func setKnown[T any](figures map[string]T, name string, figure rt.Opt[T]) {
	if v, isKnown := figure.Get(); isKnown {
		figures[name] = v
	}
}

func tenths(v float64) float64 { return math.Round(v*10) / 10 }
