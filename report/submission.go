package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm/request"
)

// KindOf returns the newest kind of job that a submission is of; nil if there is none.
func KindOf(kinds []Kind, r *request.Request) *Kind {
	for i := range kinds {
		if kinds[i].isOf(r) {
			return &kinds[i]
		}
	}
	return nil
}

// isOf reports whether a submission is of this kind. What the submission leaves to the site, or the site hides, can be any.
func (k *Kind) isOf(r *request.Request) bool {
	isSame := func(of, wanted string) bool { return of == "" || wanted == "" || of == wanted }
	cores, asked, areKnown := rt.Both(k.Cores, r.Cores)
	const threads = 2 // of a core: Slurm allocates whole cores
	hasCores := !areKnown || cores >= asked && cores <= threads*asked
	isNamed := k.Name == r.Name && isSame(k.WorkDir, r.WorkDir) && isSame(k.Account, r.Account)
	isThere := k.Partition == "" || r.Partition == "" || slices.Contains(strings.Split(r.Partition, ","), k.Partition)
	sameShape := hasCores && uint64(k.GPUs) == r.GPUs && r.Nodes.Or(uint64(k.Nodes)) == uint64(k.Nodes)
	sameRequest := sameClass(k.LimitBytes, scaled(r.MemoryBytes, 1)) && sameClass(k.LimitSecs, r.TimeSecs)
	return isNamed && isThere && sameShape && sameRequest
}

// Line says in one sentence what a submission of this kind could request; empty if what it requests fits.
func (k *Kind) Line(r *request.Request) string {
	var used, asked, options []string
	memory, secs := scaled(r.MemoryBytes, 1), r.TimeSecs
	if !memory.Valid() {
		memory = k.LimitBytes
	}
	if !secs.Valid() {
		secs = k.LimitSecs
	}
	add := func(uses, asks, option string) {
		used, asked, options = append(used, uses), append(asked, asks), append(options, option)
	}
	for _, text := range k.Requests {
		o := optionsOf(text)
		wantBytes, wantSecs := scaled(o.MemoryBytes, 1).Or(0), o.TimeSecs.Or(0)
		switch option, _, _ := strings.Cut(text, "="); option {
		case "--mem":
			if wantBytes < worthwhile*memory.Or(0) {
				add(k.PeakBytes.text(bytes), bytes(memory), text+onlyIf(r.MemoryBy != "", " (instead of "+r.MemoryBy+")"))
			}
		case "--time":
			if wantSecs < worthwhile*secs.Or(0) {
				add(k.ElapsedSecs.text(Clock), Clock(secs), text)
			}
		case "no GPU", "--gpus-per-node":
			add(onlyIf(option != "no GPU", "not all GPUs")+onlyIf(option == "no GPU", option), plural(k.GPUs, "GPU"), text)
		default:
			add(k.UsedCores.text(func(v rt.Opt[float64]) string { return Significant(v.Or(0)) })+" cores", plural(int(k.Cores.Or(0)), "core"), text)
		}
	}
	if len(options) == 0 {
		return ""
	}
	next := strings.ReplaceAll(strings.Join(options, " "), " no GPU", " and no GPU")
	return Plain(fmt.Sprintf("your last %s of this job used %s; you request %s: %s would do", plural(k.Jobs, "run"), listed(used), listed(asked), next))
}

// listed joins texts as in a, b and c.
func listed(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
