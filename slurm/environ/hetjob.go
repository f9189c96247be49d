package environ

import (
	"slices"
	"strconv"

	"github.com/resource-tracker/rt"
)

// maxComponents limits the components of a heterogeneous job; Slurm allows 128.
const maxComponents = 128

// hetNames returns the names of a variable that a heterogeneous job has for each component.
func hetNames(name string, component uint64) []string {
	i := strconv.FormatUint(component, 10)
	return []string{name + "_HET_GROUP_" + i, name + "_PACK_GROUP_" + i}
}

// setHet sets which component of a heterogeneous job the run is, from the environment of
// one of its tasks.
func setHet(run *rt.Run, env Env) {
	size := env.Number("SLURM_HET_SIZE", "SLURM_PACK_SIZE").Or(0)
	leader := env.Number(hetNames("SLURM_JOB_ID", 0)...)
	if size == 0 || !leader.Valid() {
		return
	}
	run.HetJobID = leader
	for i := range min(size, maxComponents) {
		if id := env.Number(hetNames("SLURM_JOB_ID", i)...); id.Valid() && id == run.JobID {
			run.HetJobOffset.Set(i)
			return
		}
	}
}

// setComponent makes the run that of its own component. In every task of a heterogeneous
// job SLURM_JOB_ID is the leader's id and the lists are those of all components, but the
// cgroup has the component's id. The node identifies the component, unless two components
// share the node.
func setComponent(run *rt.Run, env Env) {
	size := env.Number("SLURM_HET_SIZE", "SLURM_PACK_SIZE").Or(0)
	var here []uint64
	for i := range min(size, maxComponents) {
		hosts, err := ExpandHosts(env.Text(hetNames("SLURM_JOB_NODELIST", i)...))
		if err == nil && slices.Contains(hosts, run.Node) {
			here = append(here, i)
		}
	}
	if len(here) == 1 {
		i := here[0]
		if id := env.Number(hetNames("SLURM_JOB_ID", i)...); id.Valid() {
			run.JobID = id
		}
		for field, name := range map[*string]string{
			&run.Account: "SLURM_JOB_ACCOUNT", &run.Partition: "SLURM_JOB_PARTITION",
			&run.QOS: "SLURM_JOB_QOS", &run.NodeList: "SLURM_JOB_NODELIST",
		} {
			if v := env.Text(hetNames(name, i)...); v != "" {
				*field = v
			}
		}
		if n := env.Number(hetNames("SLURM_JOB_NUM_NODES", i)...); n.Valid() {
			run.NumNodes = n
		}
	}
	setHet(run, env)
}
