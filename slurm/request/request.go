// Package request reads what a submission to Slurm asks for: the options of sbatch, salloc and srun. They are in a batch
// script, on a command line, or from the plugin cli_filter/lua.
package request

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// Request is what a submission asks for. What it leaves to the defaults of the site is absent or empty.
type Request struct {
	Name, WorkDir, Account string
	Cluster, Partition     string // each can be a list

	MemoryBytes rt.Opt[uint64] // for each node
	MemoryBy    string         // the option with the memory, if it is not --mem
	TimeSecs    rt.Opt[float64]
	Nodes       rt.Opt[uint64]
	CPUsPerTask rt.Opt[uint64] // absent if Cores is
	Cores       rt.Opt[uint64] // on all nodes; absent with --exclusive
	GPUs        uint64         // on all nodes
	GPUsBy      string         // the option with the GPUs of a node, up to their number; empty if there is no such option

	// IsUnclear reports that the amount of an option is not known. It asks for all of a node, for no limit, in another
	// notation, or for the components of a heterogeneous job.
	IsUnclear bool
}

// unclear are options whose amounts depend on what the job gets.
var unclear = []string{"gpus-per-socket", "gpus-per-task", "hetjob", "tres-per-task"}

// Options are options of sbatch by their long names, without dashes.
type Options map[string]string

// Of returns the request of options and of the words after them, the script or command with its arguments.
func Of(o Options, words []string, workDir string) Request {
	r := Request{Name: o["job-name"], WorkDir: workDir, Cluster: o["clusters"], Partition: o["partition"], Account: o["account"]}
	if dir := o["chdir"]; filepath.IsAbs(dir) {
		r.WorkDir = filepath.Clean(dir)
	} else if dir != "" {
		r.WorkDir = filepath.Join(workDir, dir)
	}
	if r.Name == "" && len(words) > 0 {
		r.Name = filepath.Base(words[0])
	}
	for _, name := range unclear {
		_, isThere := o[name]
		r.note(isThere, false)
	}
	for _, name := range []string{"nodes", "ntasks", "ntasks-per-node", "cpus-per-task"} {
		_, isThere := o[name]
		_, isNumber := o.number(name)
		r.note(isThere, isNumber)
	}
	text, isThere := o["time"]
	secs, isTime := parseTime(text)
	r.note(isThere, isTime)
	if isTime {
		r.TimeSecs.Set(secs)
	}
	if n, isNumber := o.number("nodes"); isNumber {
		r.Nodes.Set(n)
	}
	r.setCores(o)
	r.setGPUs(o)
	r.setMemory(o)
	return r
}

// note sets IsUnclear for an option that is there and is not understood.
func (r *Request) note(isThere, isKnown bool) {
	if isThere && !isKnown {
		r.IsUnclear = true
	}
}

func (o Options) number(name string) (uint64, bool) {
	n, err := strconv.ParseUint(o[name], 10, 20)
	return n, err == nil
}

// setCores sets the cores. Without options a job has one.
func (r *Request) setCores(o Options) {
	tasks, hasTasks := o.number("ntasks")
	each, isEach := o.number("ntasks-per-node")
	if !hasTasks && isEach {
		tasks, hasTasks = each*r.Nodes.Or(1), true
	}
	if !hasTasks {
		tasks = r.Nodes.Or(1)
	}
	cpus, hasCPUs := o.number("cpus-per-task")
	if !hasCPUs {
		cpus = 1
	}
	_, isWhole := o["exclusive"]
	_, isByGPU := o["cpus-per-gpu"]
	if !isWhole && !isByGPU {
		r.Cores.Set(tasks * cpus)
		r.CPUsPerTask.Set(cpus)
	}
}

func (r *Request) setGPUs(o Options) {
	var each uint64 // of a node
	for _, one := range strings.Split(o["gres"], ",") {
		kind, text, _ := strings.Cut(strings.TrimPrefix(one, "gres:"), ":")
		if kind != "gpu" && kind != "gres/gpu" {
			continue
		}
		model, n, isNumber := gpus(text)
		switch {
		case isNumber:
		case text == "":
			n = 1
		default: // only a type
			model, n = text+":", 1
		}
		r.note(each > 0, false) // a list of types
		each += n
		r.GPUsBy = "--gres=gpu:" + model
	}
	for _, name := range []string{"gpus-per-node", "gpus"} {
		text, isThere := o[name]
		if !isThere {
			continue
		}
		model, n, isNumber := gpus(text)
		r.note(true, isNumber && !strings.Contains(text, ","))
		each, r.GPUsBy = n, "--"+name+"="+model
		if name == "gpus" {
			r.GPUs = n
			if r.Nodes.Or(1) > 1 {
				r.GPUsBy = ""
			}
			return
		}
	}
	r.GPUs = each * r.Nodes.Or(1)
}

// gpus returns the type, with its colon, and the number of a text such as 2 or a100:2.
func gpus(text string) (model string, n uint64, ok bool) {
	at := strings.LastIndexByte(text, ':') + 1
	n, err := strconv.ParseUint(text[at:], 10, 16)
	return text[:at], n, err == nil
}

// setMemory sets the memory. The memory for each CPU is known for a node if the job has one node.
func (r *Request) setMemory(o Options) {
	text, isThere := o["mem"]
	bytes, isKnown := ParseMemory(text)
	switch {
	case o["mem-per-cpu"] != "":
		r.MemoryBy, isThere = "--mem-per-cpu", true
		bytes, isKnown = ParseMemory(o["mem-per-cpu"])
		isKnown = isKnown && r.Cores.Valid() && r.Nodes.Or(1) == 1
		bytes *= r.Cores.Or(0)
	case o["mem-per-gpu"] != "":
		r.MemoryBy, isThere = "--mem-per-gpu", true
		bytes, isKnown = ParseMemory(o["mem-per-gpu"])
		isKnown = isKnown && r.GPUs > 0 && r.Nodes.Or(1) == 1
		bytes *= r.GPUs
	}
	r.note(isThere, isKnown)
	if isKnown {
		r.MemoryBytes.Set(bytes)
	}
}

// ParseMemory parses the value of --mem, such as 64M or 4096. The value 0, all of the node's memory, is no number of bytes.
func ParseMemory(text string) (bytes uint64, ok bool) {
	text = strings.TrimSuffix(strings.ToUpper(text), "B")
	shift := 20
	if at := strings.IndexAny(text, "KMGT"); at >= 0 && at == len(text)-1 {
		shift = 10 * (1 + strings.IndexByte("KMGT", text[at]))
		text = text[:at]
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 || n > math.MaxUint64>>shift {
		return 0, false
	}
	return n << shift, true
}

// parseTime parses the value of --time in seconds: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S.
func parseTime(text string) (secs float64, ok bool) {
	days, rest, hasDays := strings.Cut(text, "-")
	units := []float64{60, 1}
	switch {
	case hasDays:
		units = []float64{3600, 60, 1}
	default:
		rest = text
		if strings.Count(rest, ":") == 2 {
			units = []float64{3600, 60, 1}
		}
	}
	parts := strings.Split(rest, ":")
	if len(parts) > len(units) {
		return 0, false
	}
	if hasDays {
		parts, units = append([]string{days}, parts...), append([]float64{24 * 3600}, units...)
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 20)
		if err != nil {
			return 0, false
		}
		secs += float64(n) * units[i]
	}
	return secs, secs > 0
}

// OfFilter returns the request that cli_filter/lua passes on: the JSON of slurm.json_cli_options.
func OfFilter(text []byte, workDir string) (r Request, o Options, err error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return r, nil, err
	}
	var words []string
	o = Options{}
	for name, value := range all {
		one := ""
		switch {
		case name == "argv" && json.Unmarshal(value, &words) == nil:
		case json.Unmarshal(value, &one) == nil:
			o[name] = one
		}
	}
	return Of(o, words, workDir), o, nil
}
