package sonar

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
	slurmacct "github.com/resource-tracker/rt/slurm/accounting"
	"github.com/resource-tracker/rt/spool"
)

// write makes the runs, by job and host. It does not change a run that is already in the spool.
func (im *importer) write(dir string) ([]string, error) {
	keys := slices.SortedFunc(maps.Keys(im.jobs), func(a, b jobKey) int {
		return cmp.Or(cmp.Compare(a.job, b.job), strings.Compare(a.host, b.host), strings.Compare(a.cluster, b.cluster))
	})
	if err := im.limits.Check(dir, len(keys), func(i int) rt.Run { return im.run(keys[i]) }); err != nil {
		return nil, err
	}
	var made []string
	for _, key := range keys {
		path, err := im.writeRun(dir, key)
		if errors.Is(err, spool.ErrExists) {
			im.warn("job %d on %s is already in the spool, and stays as it is", key.job, key.host)
			continue
		}
		if err != nil {
			return made, fmt.Errorf("job %d on %s: %w", key.job, key.host, err)
		}
		made = append(made, path)
	}
	return made, nil
}

func (im *importer) writeRun(dir string, key jobKey) (string, error) {
	run := im.run(key)
	snapshots := im.snapshots(key, run.Start)
	w, err := im.limits.Create(dir, run, hostFacts(key.host, im.host(key.host).sysinfo), spool.Options{})
	if err != nil {
		return "", err
	}
	w.Event(rt.Event{Time: run.End, Kind: "tracker", Name: "import", Status: "ok",
		Detail: "imported from records of " + run.TrackerVersion + ": times and CPU time in whole seconds"})
	w.Event(rt.Event{Time: run.End, Kind: "sensor", Name: "cgroup", Status: "n/a", Detail: "not in Sonar's records"})
	w.Event(rt.Event{Time: run.End, Kind: "sensor", Name: "network", Status: "n/a", Detail: "not in Sonar's records"})
	for i := range snapshots {
		err = errors.Join(err, w.Put(&snapshots[i]))
	}
	if err == nil {
		err = w.End(run)
	}
	if err != nil {
		return "", errors.Join(err, w.Discard())
	}
	return w.Path(), nil
}

// hostFacts returns the host that a record of sonar sysinfo describes.
func hostFacts(name string, s *Sysinfo) rt.Host {
	h := rt.Host{HostName: name}
	if s == nil {
		return h
	}
	h.VCPUs, h.MemoryMiB = known(s.CPUCores, 1), cmp.Or(known(s.MemKiB>>10, 1), known(s.MemGB, 1024))
	h.GPUCount, h.GPUVRAMMiB = known(s.GPUCards, 1), known(s.GPUMemGB, 1024)
	if len(s.GPUInfo) > 0 {
		h.GPUModel = s.GPUInfo[0].Model
	}
	return h
}

// account merges the record of sonar slurm into the run, and completes its metadata. A job
// without such a record and without a cluster may belong to any scheduler, or to none.
func (im *importer) account(run *rt.Run) {
	var records []slurmacct.Account
	id := strconv.FormatUint(run.JobID.Or(0), 10)
	for i, j := range im.accounts {
		isOther := j.Cluster != "" && im.cluster == "" && j.Cluster != run.Cluster
		if j.JobIDRaw != id || isOther {
			continue
		}
		a, ok := sonarAccount(j)
		if !ok {
			continue
		}
		a.DBIndex.Set(uint64(i))
		isOlder := func(b slurmacct.Account) bool {
			return b.Start.Equal(a.Start) && (b.State == "RESIZING") == (a.State == "RESIZING")
		}
		records = append(slices.DeleteFunc(records, isOlder), a) // sonar slurm prints a job again and again
	}
	own, _ := slurmacct.Of(slurmacct.Attempts(records), run)
	if own == nil && run.Cluster == "" {
		return
	}
	run.Scheduler = "slurm"
	if own != nil {
		allocation(run, parseTRES(im.accounts[own.DBIndex.Or(0)].AllocTRES))
	}
	slurm.Describe(run)
	if own != nil {
		own.Merge(run)
	}
}

// allocation sets the nodes, and the CPUs of a job with one node. Merge sets its memory.
func allocation(run *rt.Run, tres map[string]string) {
	if n, err := strconv.ParseUint(tres["node"], 10, 32); err == nil {
		run.NumNodes.Set(n)
	}
	if n, err := strconv.ParseUint(tres["cpu"], 10, 32); err == nil && tres["node"] == "1" {
		run.AllocCPUs.Set(n)
	}
}

// sonarAccount parses the record as the line of sacct that it was made of.
func sonarAccount(j *JobRecord) (slurmacct.Account, bool) {
	epoch := func(text string) string {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return strconv.FormatInt(t.Unix(), 10)
		}
		return "Unknown"
	}
	exit := j.ExitCode
	if exit == "" {
		exit = "0:0" // zeros are left out
	}
	const header = "JobIDRaw|JobID|State|ExitCode|Start|End|AllocTRES\n"
	line := strings.Join([]string{j.JobIDRaw, j.JobID, j.State, exit, epoch(j.Start), epoch(j.End), j.AllocTRES}, "|")
	accounts, err := slurmacct.ParseSacct(header+line+"\n", time.UTC)
	if err != nil || len(accounts) != 1 {
		return slurmacct.Account{}, false
	}
	a := accounts[0]
	a.Texts = slurmacct.Texts{
		Reservation: j.Reservation, User: j.User, Account: j.Account, Partition: j.Partition, NodeList: j.NodeList, JobName: j.JobName,
	}.Storable()
	return a, true
}

// parseTRES parses cpu=2,mem=800M,node=2.
func parseTRES(text string) map[string]string {
	out := map[string]string{}
	for _, word := range splitList(text) {
		name, value, _ := strings.Cut(word, "=")
		out[name] = value
	}
	return out
}
