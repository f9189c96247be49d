package joblist

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
)

// index caches the figures of the ended runs of one directory, by file name. The index file has
// JSON lines: a header, then one line for each run. An index that is damaged or of another version
// is replaced.
type index struct {
	path    string // of the index file; empty if there is none
	head    header
	runs    map[string]*indexed
	current bool // the index file has exactly these runs
}

// settles is the minimum age of the last change of a file in the index. Two changes at nearly the
// same time can leave the same stamp.
const settles = 2 * time.Second

// header is the first line of the index file.
type header struct {
	Format  int    `json:"format"`
	Version string `json:"version"` // of rt: another version may compute other figures
	Dir     string `json:"dir"`
}

// indexFormat is increased when the meaning of a line changes.
const indexFormat = 1

// indexed is the line of one run.
type indexed struct {
	Name      string          `json:"file"`
	State     stamp           `json:"state"`
	Run       rt.Run          `json:"run"`
	Elapsed   rt.Opt[float64] `json:"elapsed,omitzero"`
	Used      rt.Opt[float64] `json:"used,omitzero"`
	Allocated rt.Opt[float64] `json:"allocated,omitzero"`
	UsedPct   rt.Opt[float64] `json:"used_pct,omitzero"`
	Cores     rt.Opt[uint64]  `json:"cores,omitzero"`
	CoresOf   string          `json:"cores_of,omitempty"`
	Peak      rt.Opt[uint64]  `json:"peak,omitzero"`
	Limit     rt.Opt[uint64]  `json:"limit,omitzero"`
	PeakPct   rt.Opt[float64] `json:"peak_pct,omitzero"`
	OOMKills  rt.Opt[uint64]  `json:"oom_kills,omitzero"`
	GPUs      []report.GPU    `json:"gpus,omitempty"`
	Last      time.Time       `json:"last,omitzero"`
	Complete  bool            `json:"complete,omitempty"`
}

// openIndex reads the index of a directory. If there is none that can be used, it returns an empty
// index.
func openIndex(cache, dir string) *index {
	x := &index{runs: map[string]*indexed{}}
	abs, err := filepath.Abs(dir)
	if cache == "" || err != nil {
		return x
	}
	sum := sha256.Sum256([]byte(abs))
	x.path, x.head = filepath.Join(cache, fmt.Sprintf("jobs-%x.jsonl", sum[:8])), header{indexFormat, rt.Version, abs}
	f, err := openOwn(x.path)
	if err != nil {
		return x
	}
	defer f.Close()
	dec := json.NewDecoder(bufio.NewReaderSize(f, 1<<16))
	var h header
	if dec.Decode(&h) != nil || h != x.head {
		return x
	}
	for dec.More() {
		r := new(indexed)
		if dec.Decode(r) != nil {
			x.runs = map[string]*indexed{}
			return x
		}
		x.runs[r.Name] = r
	}
	x.current = true
	return x
}

// openOwn opens a regular file of this user. The cache directory may belong to another user (HOME
// under sudo), so openOwn refuses links, FIFOs and files of other users.
func openOwn(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	isOwn := st.Mode&unix.S_IFMT == unix.S_IFREG && st.Uid == uint32(os.Geteuid())
	if !isOwn {
		return nil, errors.Join(fmt.Errorf("read %s: it is not a regular file of this user", path), f.Close())
	}
	return f, nil
}

// get returns the summary of a file, or nil if the file must be read.
func (x *index) get(f *file) *report.Summary {
	r := x.runs[filepath.Base(f.path)]
	if f.hasLog || r == nil || r.State != f.state {
		return nil
	}
	return r.summary()
}

// replace writes the index of files, unless the index file has exactly these runs.
func (x *index) replace(files []*file) error {
	if x.path == "" {
		return nil
	}
	settled := time.Now().Add(-settles).UnixNano()
	isKept := func(f *file) bool {
		return f.summary != nil && f.err == nil && !f.hasLog && f.summary.Run.State != rt.StateRunning && f.state.Time < settled
	}
	kept := slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return !isKept(f) })
	isNew := func(f *file) bool { return !f.indexed }
	if x.current && len(kept) == len(x.runs) && !slices.ContainsFunc(kept, isNew) {
		return nil
	}
	if err := x.write(kept); err != nil {
		return fmt.Errorf("write the index of jobs: %w", err)
	}
	return nil
}

func (x *index) write(kept []*file) (err error) {
	dir := filepath.Dir(x.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "jobs-*.new")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	err = enc.Encode(x.head)
	for _, file := range kept {
		if err == nil {
			err = enc.Encode(indexedOf(file))
		}
	}
	err = errors.Join(err, w.Flush(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), x.path)
}

func indexedOf(f *file) *indexed {
	s := f.summary
	r := indexed{
		Name: filepath.Base(f.path), State: f.state, Run: s.Run, Elapsed: s.ElapsedSecs,
		Used: s.CPU.UsedSecs, Allocated: s.CPU.AllocatedSecs, UsedPct: s.CPU.UsedPct, Cores: s.CPU.Cores, CoresOf: s.CPU.CoresOf,
		Peak: s.Memory.PeakBytes, Limit: s.Memory.LimitBytes, PeakPct: s.Memory.PeakPct, OOMKills: s.Memory.OOMKills,
		GPUs: s.GPUs, Last: s.Record.Last, Complete: s.Record.Complete,
	}
	r.Run.Meta = rt.Metadata{JobName: s.Run.Meta.JobName}
	r.Run.Command, r.Run.CgroupPath, r.Run.WorkDir, r.Run.Comment = nil, "", "", ""
	return &r
}

func (r *indexed) summary() *report.Summary {
	s := &report.Summary{Label: r.Run.Label(), Run: r.Run, ElapsedSecs: r.Elapsed, GPUs: r.GPUs}
	s.CPU.UsedSecs, s.CPU.AllocatedSecs, s.CPU.UsedPct, s.CPU.Cores, s.CPU.CoresOf = r.Used, r.Allocated, r.UsedPct, r.Cores, r.CoresOf
	s.Memory.PeakBytes, s.Memory.LimitBytes, s.Memory.PeakPct, s.Memory.OOMKills = r.Peak, r.Limit, r.PeakPct, r.OOMKills
	s.Record.Last, s.Record.Complete = r.Last, r.Complete
	return s
}
