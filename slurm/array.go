package slurm

import (
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
)

// BelieveArrays gives the tasks of arrays the ids that only their environment has. An array is believed if a run of the
// list proves it, or if isArray reports that Slurm knows it. The proof is a run of the same user in the same cluster
// whose own id is the id of the array. Slurm gives that id to the last task. So a user can invent tasks only
// of the user's own arrays. A task that another job is proven to be is not believed. isArray can be nil.
func BelieveArrays(runs []*rt.Run, isArray func(run *rt.Run, array uint64) bool) {
	lastTasks := map[uint64][]*rt.Run{}
	proven := map[string]rt.Opt[uint64]{} // the jobs of tasks
	for _, run := range runs {
		array, isTask := run.ArrayJobID.Get()
		if isTask {
			proven[run.Cluster+"/"+run.Label()] = run.JobID
		}
		if isTask && run.JobID == rt.Some(array) {
			lastTasks[array] = append(lastTasks[array], run)
		}
	}
	for _, run := range runs {
		array, task, isClaim := claimedTask(run)
		if !isClaim {
			continue
		}
		isProven := isArray != nil && isArray(run, array)
		for _, last := range lastTasks[array] {
			isProven = isProven || (last.Cluster == run.Cluster && isOfUser(run, last))
		}
		believed := run.Identity
		believed.ArrayJobID, believed.ArrayTaskID = rt.Some(array), rt.Some(task)
		owner, isOwned := proven[run.Cluster+"/"+believed.Label()]
		isOfAnother := isOwned && owner != run.JobID
		if isProven && !isOfAnother {
			run.Identity = believed
		}
	}
}

// claimedTask returns the array and the task that only the environment of the job's processes names.
func claimedTask(run *rt.Run) (array, task uint64, ok bool) {
	left, right, _ := strings.Cut(run.Meta.Tags[EnvironArrayTag], "_")
	array, err1 := strconv.ParseUint(left, 10, 64)
	task, err2 := strconv.ParseUint(right, 10, 64)
	isNumber := err1 == nil && err2 == nil
	return array, task, isNumber && run.JobID.Valid() && !run.ArrayJobID.Valid()
}

// isOfUser reports whether both runs are of one user, who is known.
func isOfUser(a, b *rt.Run) bool {
	one, isKnown := a.UID.Get()
	other, isOtherKnown := b.UID.Get()
	if isKnown && isOtherKnown {
		return one == other
	}
	return a.User != "" && a.User == b.User
}
