package main

import (
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/collect"
	"github.com/resource-tracker/rt/format/resourcetracker"
	"github.com/resource-tracker/rt/tracker"
)

var update = flag.Bool("update", false, "write the golden files again")

// machine is what /proc and /sys of a machine say at two instants.
type machine struct {
	before, after map[string]string // proc/stat and so on; what does not change is in both
	links         map[string]string // symbolic links and where they point
	pid           int               // of the tracked tree; 0: none
	apart         time.Duration     // between the two instants

	// What no file below /proc and /sys can say: the file systems' answers to
	// statvfs(3), and the GPUs, as collect/gpu reports them.
	given given
}

// given is a source of readings that were made up.
type given struct {
	mounts []rt.MountReading
	gpus   []rt.GPUReading
	usage  float64 // the sums over gpus
	vram   uint64
	busy   uint64
}

func (given) Name() string { return "given" }
func (given) Close() error { return nil }

func (g given) Read(s *rt.Snapshot) error {
	s.Mounts, s.GPUs = append(s.Mounts[:0], g.mounts...), append(s.GPUs[:0], g.gpus...)
	var total, available uint64
	for _, m := range g.mounts {
		total += m.Total
		available += m.Available
	}
	if len(g.mounts) > 0 {
		s.Node.SpaceTotal.Set(total)
		s.Node.SpaceAvailable.Set(available)
	}
	s.Node.GPUs.Set(uint64(len(g.gpus)))
	if len(g.gpus) > 0 {
		s.Node.GPUUsage.Set(g.usage)
		s.Node.GPUVRAMUsed.Set(g.vram)
		s.Node.GPUUtilized.Set(g.busy)
	}
	return nil
}

// machines are the machines of the golden files, by the files' name.
func machines(t *testing.T) map[string]machine {
	t.Helper()
	vm := archived(t, "vm.txtar", 10*time.Second)
	vm.pid = 100
	vm.given.mounts = []rt.MountReading{{
		Disk: "vda", MountPoint: "/", FSType: "ext4", Total: 42_000_000_000, Available: 11_000_000_500, Used: 29_000_000_000,
	}}
	return map[string]machine{
		"vm":       vm,
		"networks": archived(t, "networks.txtar", 4*time.Second),
		"sockets":  twoSockets(),
		"drives":   drives(),
		"gpus":     gpus(),
	}
}

// archived reads a machine from an archive.
func archived(t *testing.T, name string, apart time.Duration) machine {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata/golden", name))
	if err != nil {
		t.Fatal(err)
	}
	m := machine{before: map[string]string{}, after: map[string]string{}, links: map[string]string{}, apart: apart}
	for _, f := range a.Files {
		state, path, _ := strings.Cut(f.Name, "/")
		switch state {
		case "links":
			for line := range strings.Lines(string(f.Data)) {
				link, target, _ := strings.Cut(strings.TrimSpace(line), " ")
				m.links[link] = target
			}
		case "before":
			m.before[path] = string(f.Data)
		case "after":
			m.after[path] = string(f.Data)
		case "both":
			m.before[path], m.after[path] = string(f.Data), string(f.Data)
		default:
			t.Fatalf("%s: %s is neither before, after nor both", name, f.Name)
		}
	}
	return m
}

// write makes a directory what the machine says at one instant. Files that are
// open stay the same files, as the kernel's do.
func (m *machine) write(t *testing.T, dir string, old, state map[string]string) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for path := range old {
		if _, stays := state[path]; !stays {
			check(os.Remove(filepath.Join(dir, path)))
		}
	}
	for path, text := range state {
		path = filepath.Join(dir, path)
		check(os.MkdirAll(filepath.Dir(path), 0o755))
		check(os.WriteFile(path, []byte(text), 0o644))
	}
	for link, target := range m.links {
		link = filepath.Join(dir, link)
		if _, err := os.Lstat(link); err == nil {
			continue
		}
		check(os.MkdirAll(filepath.Dir(link), 0o755))
		check(os.Symlink(target, link))
	}
	for path := range old { // a process that is gone has no directory
		for dir := filepath.Dir(filepath.Join(dir, path)); os.Remove(dir) == nil; dir = filepath.Dir(dir) {
		}
	}
}

// sample takes the two readings with the program's own sources, recorder and output. It returns the
// output: a line of JSON, and CSV with its header.
func (m *machine) sample(t *testing.T) (json, csv string) {
	t.Helper()
	dir := t.TempDir()
	m.write(t, dir, nil, m.before)
	trk := &tracking{}
	if m.pid != 0 {
		trk.run.PID.Set(uint64(m.pid))
	}
	err := trk.openSources(settings{procfs: dir + "/proc", sysfs: dir + "/sys", scope: rt.ScopeNode, interval: time.Hour}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	// The machine that tests has other file systems than the fixture.
	trk.sources = slices.DeleteFunc(trk.sources, func(s collect.Source) bool { return s.Name() == "space" })
	trk.sources = append(trk.sources, m.given)

	jsonOut, csvOut := &printed{}, &printed{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	now := time.Duration(0)
	rec, err := collect.New(collect.Options{
		Interval: time.Hour, Sources: trk.sources,
		Sinks: []collect.Sink{
			&tracker.Samples{Out: jsonOut, Scope: rt.ScopeNode, JobName: rt.Some("golden")},
			&tracker.Samples{Out: csvOut, CSV: true, Scope: rt.ScopeNode},
			sinkFunc(func(*rt.Snapshot) { // after the first reading: time passes, then the last one
				if now == 0 {
					m.write(t, dir, m.before, m.after)
					now = m.apart
					cancel()
				}
			}),
		},
		Clock: func() (wall, boot int64) {
			return 1_743_300_000_900_000_000 + int64(now), 5_000_000_000_000 + int64(now)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	rec.Run(ctx)
	if err := trk.close(); err != nil {
		t.Error(err)
	}
	json = strings.Join(jsonOut.list, "")
	json = strings.Replace(json, `"`+rt.Version+`"}`, `"0.1.0"}`, 1) // a new version changes no golden file
	return json, strings.Join(csvOut.list, "")
}

type sinkFunc func(*rt.Snapshot)

func (f sinkFunc) Put(s *rt.Snapshot) error { f(s); return nil }

// A machine's two instants give these bytes. A naive reading of sections 6 and 7 gives the same
// figures.
func TestGolden(t *testing.T) {
	for name, m := range machines(t) {
		t.Run(name, func(t *testing.T) {
			m.after = withProcesses(m.after)
			m.before = withProcesses(m.before)
			json, csv := m.sample(t)
			golden(t, name+".jsonl", json)
			golden(t, name+".csv", csv)

			want := m.naive(t)
			sameJSON(t, want.json(), json)
			if row := resourcetracker.CSVHeader + want.csv() + "\n"; row != csv {
				t.Errorf("CSV\n%s, a naive reading gives\n%s", csv, row)
			}
		})
	}
}

// withProcesses adds the one process that every machine has.
func withProcesses(state map[string]string) map[string]string {
	state = maps.Clone(state)
	if _, there := state["proc/1/stat"]; !there {
		state["proc/1/stat"] = "1 (init) S 0 1 1 0 -1 4194560 900 9000 30 90 50 60 700 800 20 0 1 0 3 170000000 3000 18446744073709551615 1 1\n"
	}
	return state
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata/golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -run TestGolden -update makes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s\n%s, want\n%s", name, got, want)
	}
}

// frozen is a machine that stands still, for the program itself.
type frozen struct{ dir string }

// machineOf is a machine of the golden files at its second instant.
func machineOf(t *testing.T, name string) frozen {
	t.Helper()
	m := machines(t)[name]
	dir := t.TempDir()
	m.write(t, dir, nil, withProcesses(m.after))
	return frozen{dir}
}

// run runs the program on the machine.
func (f frozen) run(t *testing.T, args ...string) string {
	t.Helper()
	roots := []string{"--gpu", "off", "--path.procfs", f.dir + "/proc", "--path.sysfs", f.dir + "/sys"}
	out, stderr, status := ran(t, f.dir, append(roots, args...)...)
	if status != 0 || stderr != "" {
		t.Fatalf("status %d, standard error %q", status, stderr)
	}
	return out
}

// samples are what the program says of the machine.
func (f frozen) samples(t *testing.T) []rt.Sample {
	t.Helper()
	samples, err := decoded([]string{f.run(t, "true")})
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// printed keeps each line on its own.
type printed struct{ list []string }

func (*printed) Room() bool        { return true }
func (p *printed) Add(line []byte) { p.list = append(p.list, string(line)) }
