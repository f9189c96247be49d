package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/request"
)

// KindOf returns the newest kind of job that a submission is of. It returns nil if there is none, or if kinds of several
// clusters are like it. Without a partition it leaves out the time if kinds of several partitions are like it: each can have its limit.
func KindOf(kinds []Kind, r *request.Request) (found *Kind) {
	for i := range kinds {
		k := kinds[i]
		isOther := found != nil && r.Partition == "" && k.Partition != found.Partition
		switch {
		case !k.isOf(r):
		case found == nil:
			found = &k
		case k.Cluster != found.Cluster:
			return nil
		case isOther:
			isTime := func(text string) bool { return strings.HasPrefix(text, "--time=") }
			found.Requests = slices.DeleteFunc(slices.Clone(found.Requests), isTime)
		}
	}
	return found
}

// isOf reports whether a submission is of this kind. What the submission leaves to the site, or the site hides, can be any.
func (k *Kind) isOf(r *request.Request) bool {
	if r.IsUnclear {
		return false
	}
	isSame := func(of, wanted string) bool { return of == "" || wanted == "" || of == wanted }
	isOneOf := func(of, list string) bool {
		return of == "" || list == "" || slices.Contains(strings.Split(list, ","), of)
	}
	cores, asked, areKnown := rt.Both(k.Cores, r.Cores)
	const threads = 2 // of a core: Slurm allocates whole cores
	isAllocated := cores >= asked && cores <= threads*asked
	hasCores := !areKnown || isAllocated
	isNamed := k.Name == r.Name && isSame(k.WorkDir, r.WorkDir) && isSame(k.Account, r.Account)
	isThere := isOneOf(k.Partition, r.Partition) && isOneOf(k.Cluster, r.Cluster)
	sameShape := hasCores && uint64(k.GPUs) == r.GPUs && r.Nodes.Or(uint64(k.Nodes)) == uint64(k.Nodes)
	sameRequest := sameClass(k.LimitBytes, rt.Scaled(r.MemoryBytes, 1)) && sameClass(k.LimitSecs, r.TimeSecs)
	return isNamed && isThere && sameShape && sameRequest
}

// Line says in one sentence what a submission of this kind could request; empty if what it requests fits. It says nothing
// about what the submission leaves to the site.
func (k *Kind) Line(r *request.Request) string {
	var used, asked, options []string
	memory, secs := rt.Scaled(r.MemoryBytes, 1), r.TimeSecs
	add := func(uses, asks, option string) {
		used, asked, options = append(used, uses), append(asked, asks), append(options, option)
	}
	for _, text := range k.Requests {
		o := optionsOf(text)
		wantBytes, wantSecs := rt.Scaled(o.MemoryBytes, 1).Or(0), o.TimeSecs.Or(0)
		switch option, number, _ := strings.Cut(text, "="); option {
		case "--mem":
			if wantBytes < worthwhile*memory.Or(0) {
				add(k.PeakBytes.text(bytes), bytes(memory), text+onlyIf(r.MemoryBy != "", " (instead of "+r.MemoryBy+")"))
			}
		case "--time":
			if wantSecs < worthwhile*secs.Or(0) {
				add(k.ElapsedSecs.text(Clock), Clock(secs), text)
			}
		case "no GPU":
			if r.GPUs > 0 {
				add(option, plural(int(r.GPUs), "GPU"), text)
			}
		case "--gpus-per-node":
			isLess := o.GPUs*uint64(max(k.Nodes, 1)) < r.GPUs
			if isLess && r.GPUsBy != "" {
				add("not all GPUs", plural(int(r.GPUs), "GPU"), r.GPUsBy+number)
			}
		default:
			if k.needsFewer(&o, r) {
				add(k.UsedCores.text(func(v rt.Opt[float64]) string { return Significant(v.Or(0)) })+" cores", plural(int(r.Cores.Or(0)), "core"), text)
			}
		}
	}
	if len(options) == 0 {
		return ""
	}
	next := strings.ReplaceAll(strings.Join(options, " "), " no GPU", " and no GPU")
	runs := "run"
	if k.Jobs != 1 {
		runs = plural(k.Jobs, "run")
	}
	return Plain(fmt.Sprintf("your last %s of this job used %s; you request %s: %s would do", runs, listed(used), listed(asked), next))
}

// MoreLine says in one sentence what a submission of this kind needs more; empty if nothing shows that it does.
func (k *Kind) MoreLine(r *request.Request) string {
	var options []string
	for _, text := range k.More {
		o := optionsOf(text)
		isMemory := o.MemoryBytes.Or(0) > r.MemoryBytes.Or(0)
		isTime := o.TimeSecs.Or(0) > r.TimeSecs.Or(0)
		isOther := !o.MemoryBytes.Valid() && !o.TimeSecs.Valid()
		if isMemory || isTime || isOther {
			options = append(options, text)
		}
	}
	return onlyIf(len(options) > 0, Plain("your last run of this job needed more than it requested: request "+strings.Join(options, " ")))
}

// needsFewer reports whether o has fewer CPUs for a task than r. With the tasks of r they must be as many as were used: the
// earlier jobs can have had more tasks.
func (k *Kind) needsFewer(o, r *request.Request) bool {
	want, each, areKnown := rt.Both(o.CPUsPerTask, r.CPUsPerTask)
	if !areKnown || each == 0 {
		return false
	}
	tasks := r.Cores.Or(0) / each
	isEnough := k.UsedCores.High.Or(0) <= (1+slower)*float64(want*tasks)
	return isEnough && float64(want) < worthwhile*float64(each)
}

// listed joins texts as in a, b and c.
func listed(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
