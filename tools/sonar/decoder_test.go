// Package sonar compares format/sonar with the decoder of Sonar's authors.
package sonar

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/NordicHPC/sonar/util/formats/newfmt"

	"github.com/resource-tracker/rt/format/sonar"
)

// files returns our own file, and those that Sonar's authors test with, by name.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	ours, err := os.ReadFile("../../format/sonar/testdata/new.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(ours), "\n-- ")[1:] {
		name, text, _ := strings.Cut(part, " --\n")
		out["ours/"+name] = []byte(text)
	}
	paths, _ := filepath.Glob(filepath.Join(os.Getenv("SONAR_FORMATS"), "testdata/newfmt_*.json"))
	if len(paths) < 3 {
		t.Fatalf("SONAR_FORMATS=%s is not the directory of Sonar's module", os.Getenv("SONAR_FORMATS"))
	}
	for _, path := range paths {
		out[filepath.Base(path)], err = os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// decode returns our records of a file as lines.
func decode(t *testing.T, data []byte) (samples, jobs, hosts []string) {
	t.Helper()
	for rec, err := range sonar.Decode(bytes.NewReader(data)) {
		if err != nil {
			t.Error(err)
		}
		switch r := rec.(type) {
		case *sonar.Sample:
			samples = append(samples, fmt.Sprint(r.Time.Unix(), r.Cluster, r.Host, r.Job, r.User, r.Epoch, r.PID, r.PPID, r.CPUTimeSec, r.CPUPct, r.RSSAnonKiB, r.CPUKiB, r.RolledUp, r.GPUKiB))
		case *sonar.JobRecord:
			jobs = append(jobs, fmt.Sprint(r.Cluster, r.JobIDRaw, r.State, r.User, r.Account, r.Start, r.End, r.JobName))
		case *sonar.Sysinfo:
			hosts = append(hosts, fmt.Sprint(r.Timestamp.Unix(), r.Cluster, r.Hostname, r.CPUCores, r.MemKiB, len(r.GPUInfo)))
		}
	}
	return samples, jobs, hosts
}

func unix(t *testing.T, text newfmt.Timestamp) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return at.Unix()
}

func compare(t *testing.T, name string, ours, theirs []string) {
	t.Helper()
	if len(theirs) == 0 || !slices.Equal(ours, theirs) {
		t.Errorf("%s: we read\n%s\nSonar's decoder\n%s", name, strings.Join(ours, "\n"), strings.Join(theirs, "\n"))
	}
}

func TestNextToSonarsDecoder(t *testing.T) {
	for name, data := range files(t) {
		samples, jobs, hosts := decode(t, data)
		var theirs []string
		var err error
		switch {
		case strings.Contains(name, "sample"):
			err = newfmt.ConsumeJSONSamples(bytes.NewReader(data), false, func(e *newfmt.SampleEnvelope) { theirs = append(theirs, samplesOf(t, e)...) })
			compare(t, name, samples, theirs)
		case strings.Contains(name, "jobs"):
			err = newfmt.ConsumeJSONJobs(bytes.NewReader(data), false, func(e *newfmt.JobsEnvelope) { theirs = append(theirs, jobsOf(e)...) })
			compare(t, name, jobs, theirs)
		case strings.Contains(name, "sysinfo"):
			err = newfmt.ConsumeJSONSysinfo(bytes.NewReader(data), false, func(e *newfmt.SysinfoEnvelope) { theirs = append(theirs, hostsOf(t, e)...) })
			compare(t, name, hosts, theirs)
		}
		if err != nil {
			t.Errorf("%s: Sonar's decoder: %v", name, err)
		}
	}
}

func samplesOf(t *testing.T, e *newfmt.SampleEnvelope) (out []string) {
	if e.Data == nil {
		return nil
	}
	a := &e.Data.Attributes
	for _, j := range a.Jobs {
		for _, p := range j.Processes {
			var gpu uint64
			for _, g := range p.Gpus {
				gpu += g.GpuMemory
			}
			out = append(out, fmt.Sprint(unix(t, a.Time), a.Cluster, a.Node, j.Job, j.User, j.Epoch, p.Pid, p.ParentPid, p.CpuTime, p.CpuAvg, p.ResidentMemory, p.VirtualMemory, p.Rolledup, gpu))
		}
	}
	return out
}

func jobsOf(e *newfmt.JobsEnvelope) (out []string) {
	if e.Data == nil {
		return nil
	}
	for _, j := range e.Data.Attributes.SlurmJobs {
		id := fmt.Sprint(j.JobID)
		if j.JobStep != "" {
			id += "." + j.JobStep
		}
		out = append(out, fmt.Sprint(e.Data.Attributes.Cluster, id, j.JobState, j.UserName, j.Account, j.Start, j.End, j.JobName))
	}
	return out
}

func hostsOf(t *testing.T, e *newfmt.SysinfoEnvelope) (out []string) {
	if e.Data == nil {
		return nil
	}
	a := &e.Data.Attributes
	cores := a.Sockets * a.CoresPerSocket * a.ThreadsPerCore
	return append(out, fmt.Sprint(unix(t, a.Time), a.Cluster, a.Node, cores, a.Memory, len(a.Cards)))
}
