package report

import (
	"slices"

	"github.com/resource-tracker/rt"
)

// isNamed reports whether a name distinguishes a job. The names in the list do not, because Slurm
// gives them to any job.
func isNamed(name string) bool {
	return !slices.Contains([]string{"", "wrap", "bash", "sh", "interactive", "sbatch"}, name)
}

// MayCompare reports whether a run can be of a job that is comparable with j. It has the same user, cluster,
// partition, account, job name, directory and step, and started before j or is of its array.
func (j *JobSummary) MayCompare(r *rt.Run) bool {
	own := &j.Runs[0].Run
	isSame := j.User == r.User && j.Cluster == r.Cluster && j.Partition == r.Partition && j.Account == r.Account &&
		j.Name == r.Meta.JobName && own.WorkDir == r.WorkDir && own.Step == r.Step
	isEarlier := isNamed(j.Name) && !r.Start.After(j.Start)
	isRelated := isEarlier || isOfArray(own, r)
	return isSame && isRelated
}

func isOfArray(a, b *rt.Run) bool { return a.ArrayJobID.Valid() && a.ArrayJobID == b.ArrayJobID }

// isLike reports whether e is a run of the same thing as j, with the same allocation and a similar request.
func (j *JobSummary) isLike(e *JobSummary) bool {
	r := e.Runs[0].Run
	r.User, r.Partition, r.Account, r.Meta.JobName, r.Start = e.User, e.Partition, e.Account, e.Name, e.Start // one node can know less
	isOther := e.Label != j.Label
	sameShape := len(e.Runs) == len(j.Runs) && e.Nodes.Cores == j.Nodes.Cores && e.Runs.allocatedGPUs() == j.Runs.allocatedGPUs()
	sameRequest := sameClass(e.Runs.limitBytes(), j.Runs.limitBytes()) && sameClass(e.LimitSecs, j.LimitSecs)
	return isOther && sameShape && sameRequest && j.MayCompare(&r) && e.Runs[0].Scope == ScopeJob
}

// limitBytes returns the memory limit of the job on the node where it is highest; absent if it has none.
func (l NodeRuns) limitBytes() (top rt.Opt[float64]) {
	for _, s := range l {
		if s.Memory.LimitOf != "node" {
			raise(&top, rt.Scaled(s.Memory.LimitBytes, 1))
		}
	}
	return top
}

// sameClass reports whether two requests differ by a factor of at most 2. One that is not known can be
// any.
func sameClass(a, b rt.Opt[float64]) bool {
	x, y, areKnown := rt.Both(a, b)
	return !areKnown || max(x, y) <= 2*min(x, y)
}
