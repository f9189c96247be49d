package sonar

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Version is the version of the formats that rt writes.
const Version = "0.13.0"

// maxInteger bounds all integers of the formats except the load: they fit in 52 bits.
const maxInteger = 1<<52 - 1

// Sample is one record of sonar ps: a process, or the sum of the processes of a job with the same
// command.
type Sample struct {
	Version     string    `sonar:"v"`           // of the program that wrote it, "0.13.0"; "0.6.0" for unnamed columns
	Time        time.Time `sonar:"time"`        // the same in all records of one invocation
	Host        string    `sonar:"host"`        // fully qualified
	Cores       uint64    `sonar:"cores"`       // on the host; up to 0.9
	MemTotalKiB uint64    `sonar:"memtotalkib"` // of the host; 0.8 and 0.9

	// User is a name, or NoInfo, NoInfoUID(uid), or _zombie_<pid>.
	User string `sonar:"user"`
	// Cmd is the name of the executable, or Unknown of a zombie, or NoInfo.
	Cmd string `sonar:"cmd"`
	// Job is 0 for a separate job with an unknown id, never merged with others.
	Job uint64 `sonar:"job"`
	// Epoch is 0 for a job of Slurm. If Job is a process group, Epoch is the boot time of the host in seconds since
	// the start of 2020 (from 0.13). Process groups repeat after a boot.
	Epoch uint64 `sonar:"epoch"`
	PID   uint64 `sonar:"pid"`  // 0 in a rolled-up record
	PPID  uint64 `sonar:"ppid"` // from 0.11

	CPUPct     float64 `sonar:"cpu%"`        // mean over the life of the process; 100 is one core
	CPUKiB     uint64  `sonar:"cpukib"`      // virtual memory: data and stack
	RSSAnonKiB uint64  `sonar:"rssanonkib"`  // resident private memory; from 0.8
	GPUs       GPUSet  `sonar:"gpus"`        // that it uses
	GPUPct     float64 `sonar:"gpu%"`        // sum over the GPUs; 100 is one GPU
	GPUMemPct  float64 `sonar:"gpumem%"`     // the same for their memory
	GPUKiB     uint64  `sonar:"gpukib"`      // sum over the GPUs
	CPUTimeSec uint64  `sonar:"cputime_sec"` // with its ended children
	RolledUp   uint64  `sonar:"rolledup"`    // number of further processes in the record

	// Of the host; in one record of an invocation. Load is the busy time of each CPU
	// since boot in seconds (from 0.12), GPUInfo is by index (from 0.13).
	Load    []uint64 `sonar:"load"`
	GPUInfo []GPU    `sonar:"gpuinfo"`

	// In the new format only.
	Cluster    string
	MemUsedKiB uint64 // memory of the host that is not available
}

// User and Cmd without a name.
const (
	NoInfo  = "_noinfo_"
	Unknown = "_unknown_"
)

// NoInfoUID returns the User of a user without a name (from 0.9).
func NoInfoUID(uid uint64) string { return NoInfo + strconv.FormatUint(uid, 10) }

// UID returns the user id in a User of NoInfoUID, or in _user_<uid> of the new format.
func UID(user string) (uint64, bool) {
	text, ok := strings.CutPrefix(user, NoInfo)
	if !ok {
		text, ok = strings.CutPrefix(user, "_user_")
	}
	uid, err := strconv.ParseUint(text, 10, 32)
	return uid, ok && err == nil
}

// GPUSet is the set of GPUs that a process uses. The zero value is the empty set.
type GPUSet struct {
	Unknown bool     // it uses some, but which is unknown
	Indices []uint32 // device numbers, below 2^31
}

// String returns the set as in the field gpus: "none", "unknown" or "0,1".
func (g GPUSet) String() string {
	switch {
	case g.Unknown:
		return "unknown"
	case len(g.Indices) == 0:
		return "none"
	}
	var b []byte
	for i, n := range g.Indices {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return string(b)
}

func parseGPUSet(text string) (GPUSet, error) {
	switch text {
	case "", "none":
		return GPUSet{}, nil
	case "unknown":
		return GPUSet{Unknown: true}, nil
	}
	var g GPUSet
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseUint(word, 10, 31)
		if err != nil {
			return GPUSet{}, fmt.Errorf("%.40q is no list of GPUs", text)
		}
		g.Indices = append(g.Indices, uint32(n))
	}
	return g, nil
}

// bitVectorUnknown is the value of 0.6 for "unknown".
var bitVectorUnknown = strings.Repeat("1", 32)

// parseBits parses the set as 0.6 writes it: a binary number with bit n for GPU n.
func parseBits(text string) (GPUSet, error) {
	if text == bitVectorUnknown {
		return GPUSet{Unknown: true}, nil
	}
	v, err := strconv.ParseUint(text, 2, 64)
	if err != nil {
		return GPUSet{}, fmt.Errorf("%.80q is no bit vector of GPUs", text)
	}
	var g GPUSet
	for n := uint32(0); v > 0; n, v = n+1, v>>1 {
		if v&1 == 1 {
			g.Indices = append(g.Indices, n)
		}
	}
	return g, nil
}

// sampleColumns are the fields of all versions in the order of 0.8 and later, and processColumns the fields
// of a process.
var (
	sampleColumns  = columnsOf[Sample]()
	processColumns = sampleColumns[5:20]
)

func (s *Sample) at(name string) any { return find(sampleColumns, s, name) }

func (s *Sample) set(name, text string) error { return parse(s.at(name), text) }

// check reports a missing required field.
func (s *Sample) check() error {
	switch {
	case s.Version == "":
		return errors.New("no version (v)")
	case s.Time.IsZero():
		return errors.New("no time")
	case s.Host == "":
		return errors.New("no host")
	case s.User == "":
		return errors.New("no user")
	case s.Cmd == "":
		return errors.New("no cmd")
	}
	return checkVersion(s.Version)
}

func parseInteger(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%.40q is no unsigned integer", text)
	}
	if n > maxInteger {
		return 0, fmt.Errorf("%d has more than 52 bits", n)
	}
	return n, nil
}

func parseFloat(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 || strings.ContainsAny(text, "xXpP_") {
		return 0, fmt.Errorf("%.40q is no number of 0 or more", text)
	}
	return v, nil
}

// minTime and maxTime bound times: nanoseconds in 64 bits.
var minTime, maxTime = time.Unix(0, 0), time.Unix(0, math.MaxInt64)

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil || t.Before(minTime) || t.After(maxTime) {
		return time.Time{}, fmt.Errorf("%.60q is no ISO 8601 time with an offset between 1970 and 2262", text)
	}
	// Never the zone of this machine: the same text gives the same value.
	_, offset := t.Zone()
	return t.In(zone(offset)), nil
}

func zone(offset int) *time.Location {
	if offset == 0 {
		return time.UTC
	}
	return time.FixedZone("", offset)
}

const isoTime = "2006-01-02T15:04:05-07:00"

var versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.|$)`)

// checkVersion checks that a semantic version begins with a major and a minor number.
func checkVersion(text string) error {
	if !versionForm.MatchString(text) {
		return fmt.Errorf("%.40q is no version as 0.13.0 is", text)
	}
	return nil
}
