package drain

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
)

// RecordOptions returns what alters one record of a run; nil for nothing. A record begins with the
// run. It has no reports of other programs, which can have any text.
func (p *Privacy) RecordOptions() *spool.DumpOptions {
	if !p.Hides() {
		return nil
	}
	d := p.Disguise(rt.Run{})
	return &spool.DumpOptions{
		Run: func(run *rt.Run) {
			d = p.Disguise(*run)
			*run = d.Run()
		},
		Event:  func(e *rt.Event) { d.Event(e) },
		Record: func(*rt.ForeignReport) bool { return false },
		Text:   func(table, column, text string) string { return d.Text(table, column, text) },
	}
}

// gone is in the place of a name that does not leave, where a text is needed.
const gone = "-"

// plainTables have texts of devices and steps only.
var plainTables = []string{"net", "disk", "gpu", "gpu_process", "fabric", "energy", "perf", "step"}

// plainColumns are the columns of other tables that leave as they are.
var plainColumns = []string{"process.step", "mount.disk", "mount.fs_type", "remote_fs.kind"}

// Text returns what leaves of a text in the spool file. The text is in a column of a table other
// than run, host, event and record. A text of an unknown table does not leave.
func (d *Disguise) Text(table, column, value string) string {
	isPlain := !d.Hides() || slices.Contains(plainTables, table) || slices.Contains(plainColumns, table+"."+column)
	switch {
	case value == "", isPlain:
		return value
	case table == "mount", table == "remote_fs":
		return d.mountPath(value)
	}
	return ""
}

// systemMounts are the paths of mounts that leave as they are.
var systemMounts = []string{
	"/", "/boot", "/boot/efi", "/dev/shm", "/home", "/local", "/mnt", "/opt", "/scratch", "/srv", "/tmp", "/usr", "/var", "/var/log", "/var/tmp", "/work",
}

// mountPath returns a path or a source of a mount as it leaves: the home of any user can be mounted. Different ones
// have different substitutes, because the figures of file systems are added up by their names.
func (d *Disguise) mountPath(path string) string {
	switch {
	case slices.Contains(systemMounts, path):
		return path
	case d.directories() == Pseudonym:
		return d.pseudonym(kindDirectory, path)
	}
	if d.paths[path] == 0 {
		d.paths[path] = len(d.paths) + 1
	}
	return fmt.Sprintf("%s%d", gone, d.paths[path])
}

// eventKinds are the kinds of the events of a tracker. The names of these events are paths, or
// names of sensors and the like that the report looks for.
var eventKinds = []string{"sensor", "gap", "spool", "tracker", "job", "drain"}

// plainDetails lists the events with a detail that leaves: figures that the report parses, and texts of rt itself.
var plainDetails = []string{
	"gap/schedule", "gap/suspend", "tracker/cost", "tracker/sensors", "tracker/budget", "tracker/clock",
	"job/rusage", "job/cpuset", "job/oom_kill", "job/cpu", "job/end", "job/bytes", "job/tree", "job/processes",
	"job/earlier attempt", "job/io", "job/tracker",
}

// cancelledBy is the number of the user who cancelled a job, other than root.
var cancelledBy = regexp.MustCompile(` ?cancelled_by_uid=[1-9][0-9]*`)

// Event changes an event of the ledger of the run to what leaves.
func (d *Disguise) Event(e *rt.Event) {
	if !d.Hides() {
		return
	}
	if !slices.Contains(eventKinds, e.Kind) {
		e.Kind, e.Name, e.Status, e.Detail = gone, gone, gone, ""
		return
	}
	isRepeated := e.Kind == "spool" && e.Status == "repeated"
	isUnseen := e.Kind == "job" && e.Name == "tasks" && e.Status != "failed"
	isPlain := isRepeated || isUnseen || slices.Contains(plainDetails, e.Kind+"/"+e.Name)
	isSacct := e.Kind == "job" && e.Name == "sacct" && e.Status == "ok"
	switch {
	case isSacct && d.Users.hides():
		e.Detail = cancelledBy.ReplaceAllString(e.Detail, "")
	case !isPlain && !isSacct:
		e.Detail = ""
	}
	of, name, hasKind := strings.Cut(e.Name, "/")
	isOfEvent := isRepeated && hasKind && slices.Contains(eventKinds, of)
	switch {
	case isOfEvent && strings.Contains(name, "/"):
		e.Name = of + "/" + gone
	case !isOfEvent && hasKind: // a path
		e.Name = gone
	}
}

// Registration returns the registration as it leaves, a JSON text. It has facts of the host and its
// cloud, the number of the process, and the metadata.
func (d *Disguise) Registration(text []byte) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	kept := map[string]json.RawMessage{}
	for key, value := range all {
		if strings.HasPrefix(key, "host_") || strings.HasPrefix(key, "cloud_") || key == "pid" {
			kept[key] = value
		}
	}
	meta, err := json.Marshal(d.run.Meta)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(meta, &kept); err != nil { // adds to what is kept
		return nil, err
	}
	return json.Marshal(kept)
}

// Summary returns the JSON text of a drain's summary as it leaves, or nil for any other summary.
func (d *Disguise) Summary(text []byte) []byte {
	var f report.DeliveredFigures
	if json.Unmarshal(text, &f) != nil {
		return nil
	}
	f.Run.User, f.Run.Meta.JobName = d.userName(f.Run.User), d.jobName(f.Run.Meta.JobName)
	f.Run.Account, f.Run.Partition = d.label(f.Run.Account), d.label(f.Run.Partition)
	if f.Sample != nil {
		f.Sample.WorkDir = d.directory(f.Sample.WorkDir)
	}
	if d.Users.hides() {
		f.SlurmState, _, _ = strings.Cut(f.SlurmState, " by uid ")
	}
	out, err := json.Marshal(f)
	if err != nil { // what was JSON can be JSON again
		return nil
	}
	return out
}
