package sonar

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// Import makes a run of each job on each host in the records of sonar ps. The run gets the
// records of sonar sysinfo about the host and of sonar slurm about the job, from any of the
// files. Each file is read to its end, even if it has malformed records.
//
// Import writes the runs into the spool at dir, as jobs of cluster. If cluster is empty, the cluster
// in the records is used; only the new format has one. Import returns the paths of the runs, also if
// it returns an error. It calls warn for records that it leaves out.
func Import(dir string, limits *spool.ImportLimits, cluster string, files iter.Seq2[string, io.Reader], warn func(format string, args ...any)) ([]string, error) {
	im := importer{limits: limits, cluster: cluster, warn: warn, jobs: map[jobKey]*job{}, hosts: map[string]*host{}}
	var bad []error
	for name, r := range files {
		if err := im.read(name, r); err != nil {
			bad = append(bad, err)
		}
	}
	made, err := im.write(dir)
	switch {
	case im.records == 0 && bad == nil:
		bad = append(bad, errors.New("there are no records of sonar ps, sysinfo or slurm: no run is made"))
	case im.jobless > 0:
		im.warn("%d records are of processes without a job: no run is made of them", im.jobless)
	case im.records > 0 && len(im.jobs) == 0:
		im.warn("none of the %d records is of sonar ps: no run is made", im.records)
	}
	if im.repeated > 0 {
		im.warn("%d records are duplicates: each is counted once", im.repeated)
	}
	return made, errors.Join(append(bad, err)...)
}

// jobKey identifies a run.
type jobKey struct {
	job           uint64
	host, cluster string
}

// importer collects the records of the files.
type importer struct {
	limits   *spool.ImportLimits
	cluster  string
	jobs     map[jobKey]*job
	hosts    map[string]*host
	accounts []*JobRecord
	warn     func(format string, args ...any)

	records, jobless, repeated int
}

// job has the records of a job on one host.
type job struct {
	user, version string
	points        map[int64]*point // by time in seconds since the epoch
	seen          map[processKey]bool
}

// processKey is one process at one time. It occurs twice only if a file is given twice.
type processKey struct {
	at  int64
	pid uint64
}

// point is the sum of the records of a job at one time.
type point struct {
	cpuSeconds, anonKiB, processes uint64
	gpuPct                         float64
	gpuKiB                         uint64
	gpus                           bool
}

// host has the records of a host, by time in seconds since the epoch.
type host struct {
	sysinfo *Sysinfo
	cpus    map[int64]int
	gpus    map[int64][]GPU
	usedKiB map[int64]uint64
}

func (im *importer) host(name string) *host {
	h := im.hosts[name]
	if h == nil {
		h = &host{cpus: map[int64]int{}, gpus: map[int64][]GPU{}, usedKiB: map[int64]uint64{}}
		im.hosts[name] = h
	}
	return h
}

// ErrDamaged marks an import that left out malformed parts of a file.
var ErrDamaged = errors.New("some records are malformed")

// maxComplaints bounds the messages about one file.
const maxComplaints = 5

// read takes the records of one file. The error names the malformed ones.
func (im *importer) read(name string, r io.Reader) error {
	var bad []error
	records, malformed := 0, 0
	for rec, err := range Decode(r) {
		if err != nil {
			malformed++
			if malformed <= maxComplaints {
				bad = append(bad, fmt.Errorf("%s: %w", name, err))
			}
			continue
		}
		records++
		switch rec := rec.(type) {
		case *Sample:
			im.sample(rec)
		case *Sysinfo:
			im.host(rec.Hostname).sysinfo = rec
		case *JobRecord:
			im.accounts = append(im.accounts, rec)
		case *Failure:
			im.warn("%s: Sonar failed at %s: %s", name, rec.Timestamp.Format(time.RFC3339), rec.Message)
		}
	}
	im.records += records
	if malformed == 0 {
		if records == 0 {
			im.warn("%s has no records", name)
		}
		return nil
	}
	bad = append(bad, fmt.Errorf("%s: %d malformed places in total; %d records were read", name, malformed, records))
	return fmt.Errorf("%w: %w", ErrDamaged, errors.Join(bad...))
}

// sample adds a record to its job and its host.
func (im *importer) sample(s *Sample) {
	at := s.Time.Unix()
	if len(s.Load) > 0 {
		im.host(s.Host).cpus[at] = len(s.Load)
	}
	if len(s.GPUInfo) > 0 {
		im.host(s.Host).gpus[at] = s.GPUInfo
	}
	if s.MemUsedKiB > 0 {
		im.host(s.Host).usedKiB[at] = s.MemUsedKiB
	}
	isGroup := s.Epoch != 0 // Job is a process group, which may have the number of a job
	if s.Job == 0 || isGroup {
		im.jobless++
		return
	}
	key := jobKey{s.Job, s.Host, cmp.Or(im.cluster, s.Cluster)}
	j := im.jobs[key]
	if j == nil {
		j = &job{user: s.User, version: s.Version, points: map[int64]*point{}, seen: map[processKey]bool{}}
		im.jobs[key] = j
	}
	if s.PID != 0 {
		id := processKey{at, s.PID}
		if j.seen[id] {
			im.repeated++
			return
		}
		j.seen[id] = true
	}
	p := j.points[at]
	if p == nil {
		p = &point{}
		j.points[at] = p
	}
	p.addSample(s)
}

// addSample adds a record. Sonar writes a record of zeros for a job that has no process yet.
func (p *point) addSample(s *Sample) {
	if s.PID != 0 || s.RolledUp != 0 || s.CPUTimeSec != 0 || s.RSSAnonKiB != 0 || s.CPUKiB != 0 || s.CPUPct != 0 {
		p.processes = plus(p.processes, s.RolledUp+1)
	}
	p.cpuSeconds = plus(p.cpuSeconds, s.CPUTimeSec)
	p.anonKiB = plus(p.anonKiB, s.RSSAnonKiB)
	p.gpuKiB = plus(p.gpuKiB, s.GPUKiB)
	p.gpuPct += s.GPUPct
	p.gpus = p.gpus || s.GPUs.Unknown || len(s.GPUs.Indices) > 0 || s.GPUKiB > 0 || s.GPUPct > 0
}

func plus(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// scale multiplies v by a unit. The result is absent if the spool cannot store it.
func scale(v, unit uint64) rt.Opt[uint64] {
	if v > math.MaxInt64/unit {
		return rt.None[uint64]()
	}
	return rt.Some(v * unit)
}

// snapshot sets the figures of the job at one time. In the formats, 0 is both zero and unknown.
// For memory it means unknown, according to the documentation of the formats.
func (p *point) snapshot(s *rt.Snapshot) {
	s.Job.Phase = rt.JobPresent
	if p.processes == 0 && p.cpuSeconds == 0 {
		s.Job.Phase = rt.JobGone
	}
	s.Job.CPUUsage = scale(p.cpuSeconds, 1e6)
	if p.anonKiB > 0 {
		s.Job.Anon = scale(p.anonKiB, 1024)
	}
	if p.processes > 0 {
		s.Job.Pids = scale(p.processes, 1)
	}
	if p.gpus {
		s.GPU.Usage.Set(p.gpuPct / 100)
		s.GPU.VRAMUsed = scale(p.gpuKiB, 1024)
	}
}

// snapshots returns the snapshots of a job, oldest first. The first one has no figures of the job,
// so that the use before the first record counts too. Its time is start.
func (im *importer) snapshots(key jobKey, start time.Time) []rt.Snapshot {
	j, h := im.jobs[key], im.host(key.host)
	times := slices.Sorted(maps.Keys(j.points))
	first := start.Unix()
	out := []rt.Snapshot{{Reason: rt.ReasonFirst, Job: rt.JobReading{Phase: rt.JobPending}}}
	walls := []int64{first}
	h.fill(&out[0], times[0])
	if *j.points[times[0]] == (point{}) {
		times = times[1:]
	}
	for _, at := range times {
		var s rt.Snapshot
		j.points[at].snapshot(&s)
		h.fill(&s, at)
		out, walls = append(out, s), append(walls, at)
	}
	for i, at := range walls {
		out[i].Seq, out[i].Wall = int64(i+1), at*1e9
		out[i].Boot = (at-first)*1e9 + 1 // the boot clock is unknown: Boot counts from the start
	}
	return out
}

// fill sets the figures of the host at that time.
func (h *host) fill(s *rt.Snapshot, at int64) {
	if n, ok := h.cpus[at]; ok {
		s.Node.CPUs.Set(uint64(n))
	} else if h.sysinfo != nil && h.sysinfo.CPUCores > 0 {
		s.Node.CPUs.Set(h.sysinfo.CPUCores)
	}
	if h.sysinfo != nil {
		s.Node.MemTotal = cmp.Or(known(h.sysinfo.MemKiB, 1<<10), known(h.sysinfo.MemGB, 1<<30))
	}
	total, isKnown := s.Node.MemTotal.Get()
	if used := h.usedKiB[at] << 10; isKnown && used > 0 && used <= total {
		s.Node.MemAvailable.Set(total - used)
	}
	hasUUIDs := slices.ContainsFunc(h.gpus[at], func(g GPU) bool { return g.UUID != "" })
	for i, g := range h.gpus[at] {
		if hasUUIDs && g.UUID == "" {
			continue // no GPU has this index
		}
		r := rt.GPUReading{Type: "GPU", Host: strconv.Itoa(i)}
		if card := h.card(i, g.UUID); card != nil {
			r.UUID, r.Name, r.VRAMTotal = card.UUID, card.Model, known(card.MemSizeKiB, 1024)
		}
		r.UUID = cmp.Or(g.UUID, r.UUID)
		r.VRAMUsed, r.Temperature, r.Frequency = known(g.MemUseKiB, 1024), known(g.TempC, 1), known(g.ClockMHz, 1)
		if g.UtilPct > 0 {
			r.Utilization.Set(min(float64(g.UtilPct), 100))
		}
		if g.PowerW > 0 {
			r.Power.Set(float64(g.PowerW))
		}
		s.GPUs = append(s.GPUs, r)
	}
}

// card returns the card of a GPU in the record of sysinfo; nil if there is none.
func (h *host) card(index int, uuid string) *Card {
	if h.sysinfo == nil {
		return nil
	}
	cards := h.sysinfo.GPUInfo
	if uuid != "" {
		index = slices.IndexFunc(cards, func(c Card) bool { return c.UUID == uuid })
	}
	if index < 0 || index >= len(cards) {
		return nil
	}
	return &cards[index]
}

// known is scale for a value that is unknown if it is 0.
func known(v, unit uint64) rt.Opt[uint64] {
	if v == 0 {
		return rt.None[uint64]()
	}
	return scale(v, unit)
}

// run returns the run of a job.
func (im *importer) run(key jobKey) rt.Run {
	j := im.jobs[key]
	times := slices.Sorted(maps.Keys(j.points))
	first, last := time.Unix(times[0], 0).UTC(), time.Unix(times[len(times)-1], 0).UTC()
	run := rt.Run{
		Identity:       rt.Identity{Cluster: key.cluster, JobID: rt.Some(key.job), Node: key.host, Start: first},
		Allocation:     rt.Allocation{User: j.user},
		TrackerVersion: "sonar " + j.version,
		Ending:         rt.Ending{State: rt.StateRunning},
	}
	if uid, ok := UID(j.user); ok {
		run.User, run.UID = "", rt.Some(uid)
	}
	if j.user == NoInfo || j.user == "_user_unknown" {
		run.User = ""
	}
	im.account(&run)
	if run.Outcome == rt.OutcomeNone {
		run.Outcome = rt.OutcomeUnknown
	}
	if !run.JobStart.IsZero() && run.JobStart.Before(first) {
		run.Start = run.JobStart
	}
	if run.End.Before(last) {
		run.End = last
	}
	return run
}
