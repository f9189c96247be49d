package drain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/slurm"
	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// class is what Privacy does with a field.
type class int

const (
	stays       class = iota // as it is, also with a name in it
	ofUser                   // a name
	ofJob                    // a name
	ofDirectory              // a name
	ofFields                 // as other fields leave if it has their value, else not at all
	isText                   // not at all
	uid                      // not at all
)

// classOf has each field of rt.Run. A new field needs a decision here.
var classOf = map[string]class{
	"Cluster": stays, "JobID": stays, "ArrayJobID": stays, "ArrayTaskID": stays, "HetJobID": stays, "HetJobOffset": stays,
	"Step": stays, "Node": stays, "Attempt": stays, "SLUID": stays, "BootID": stays, "Start": stays,
	"Scheduler": stays, "User": ofUser, "UID": uid, "GID": uid, "Group": ofUser, "Account": stays, "Partition": stays,
	"QOS": stays, "Reservation": isText, "NodeList": stays, "NumNodes": stays, "AllocCPUs": stays, "AllocMem": stays,
	"GPUs": stays, "WorkDir": ofDirectory, "Comment": isText, "Constraints": isText, "Licenses": isText,
	"StepTasks": stays, "JobStart": stays, "JobEndLimit": stays,
	"Meta.JobName": ofJob, "Meta.ProjectName": isText, "Meta.StageName": isText, "Meta.TaskName": isText, "Meta.Team": isText,
	"Meta.Env": isText, "Meta.Language": isText, "Meta.Orchestrator": isText, "Meta.Executor": isText,
	"Meta.ExternalRunID": stays, "Meta.ContainerImage": isText, "Meta.Tags": ofFields,
	"Command": isText, "PID": stays, "Interval": stays, "CgroupLayout": stays, "CgroupPath": isText, "TrackerVersion": stays,
	"State": stays, "Outcome": stays, "OutcomeSource": stays, "ExitCode": stays, "ExitSignal": stays, "DerivedExit": stays, "End": stays,
}

// fields calls visit for each field of a struct, with its path.
func fields(v reflect.Value, path string, visit func(path string, v reflect.Value)) {
	for f, value := range v.Fields() {
		name := path + f.Name
		isOwn := f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == v.Type().PkgPath() && !strings.HasPrefix(f.Type.Name(), "Opt[")
		switch {
		case f.Anonymous:
			fields(value, path, visit)
		case isOwn:
			fields(value, name+".", visit)
		default:
			visit(name, value)
		}
	}
}

// fullRun is a run in which each field has a value, and each text has its own names.
func fullRun(t *testing.T) rt.Run {
	t.Helper()
	var run rt.Run
	fields(reflect.ValueOf(&run).Elem(), "", func(path string, v reflect.Value) {
		switch p := v.Addr().Interface().(type) {
		case *rt.Opt[uint64]:
			p.Set(1000)
		case *rt.Opt[int64]:
			p.Set(1)
		case *time.Time:
			*p = time.Unix(1e9, 0)
		case *[]string:
			*p = []string{"/home/alice/secret/run.sh", "--for=alice", "deep_fold"}
		case *map[string]string:
			*p = map[string]string{}
		default:
			switch v.Kind() {
			case reflect.String:
				v.SetString("of alice, deep_fold, /home/alice/secret/x, physicists " + path)
				if slices.Contains([]string{"Account", "Partition", "QOS"}, path) {
					v.SetString(path + " of alice")
				}
			case reflect.Uint64:
				v.SetUint(7)
			case reflect.Float64:
				v.SetFloat(7)
			default:
				t.Fatalf("%s has a type that the test does not know", path)
			}
		}
	})
	run.User, run.Group, run.WorkDir, run.Meta.JobName = "alice", "physicists", "/home/alice/secret", "deep_fold"
	run.UID, run.GID = rt.Some[uint64](47114711), rt.Some[uint64](47124712)
	run.NodeList, run.GPUs, run.SLUID = "n[1-2]", "0", "s1"
	run.CgroupPath = "/sys/fs/cgroup/cpu/slurm/uid_47114711/job_12"
	slurm.SetJobName(&run, "deep_fold", true)
	run.Meta.Tags = map[string]string{}
	slurm.Update(&run, func(run *rt.Run) {})
	slurm.SetJobName(&run, "deep_fold", true)
	run.Meta.Tags["alice_tag"] = "by alice"
	return run
}

var siteKey = []byte("0123456789abcdef")

func privacy(how Disclosure) *Privacy {
	p := &Privacy{Users: how, Jobs: how, Directories: how, Commands: None, Key: siteKey}
	if how == Plain {
		p.Commands = Plain
	}
	return p
}

var secrets = []string{"alice", "deep_fold", "secret", "physicists", "47114711", "47124712"}

// withoutShared returns the tags that do not have the account, the partition or the QOS of a run.
func withoutShared(tags map[string]string, run *rt.Run) map[string]string {
	tags = maps.Clone(tags)
	maps.DeleteFunc(tags, func(_, value string) bool {
		return slices.Contains([]string{run.Account, run.Partition, run.QOS}, value)
	})
	return tags
}

// Each field of a run has a class. What does not leave is nowhere in the run.
func TestEveryFieldHasAClass(t *testing.T) {
	original := fullRun(t)
	seen := map[string]bool{}
	for _, how := range []Disclosure{Plain, Pseudonym, None} {
		run := privacy(how).Disguise(original).Run()
		was := map[string]any{}
		fields(reflect.ValueOf(&original).Elem(), "", func(path string, v reflect.Value) { was[path] = v.Interface() })
		fields(reflect.ValueOf(&run).Elem(), "", func(path string, v reflect.Value) {
			c, isThere := classOf[path]
			if !isThere {
				t.Errorf("rt.Run has a new field %s: decide in privacy.go whether it leaves a node, and add it to classOf", path)
			}
			seen[path] = true
			isSame := reflect.DeepEqual(was[path], v.Interface())
			if want := how == Plain || c == stays; isSame != want {
				t.Errorf("%s: %s is %v, was %v", how, path, v.Interface(), was[path])
			}
			if how == Plain || c == stays {
				return
			}
			tags, isTags := v.Interface().(map[string]string)
			if isTags {
				v = reflect.ValueOf(withoutShared(tags, &original))
			}
			for _, secret := range secrets {
				if strings.Contains(fmt.Sprint(v.Interface()), secret) {
					t.Errorf("%s: %s still has %q: %v", how, path, secret, v.Interface())
				}
			}
			isAlwaysAbsent := c == uid || c == isText
			isName := c == ofUser || c == ofJob || c == ofDirectory
			if isEmpty := v.IsZero(); isEmpty != (isAlwaysAbsent || how == None && isName) {
				t.Errorf("%s: %s is %v", how, path, v.Interface())
			}
		})
	}
	for path := range classOf {
		if !seen[path] {
			t.Errorf("classOf has %s, which rt.Run has not", path)
		}
	}
	if diff := cmp.Diff(original, fullRun(t), cmp.AllowUnexported(rt.Opt[uint64]{}, rt.Opt[int64]{})); diff != "" {
		t.Errorf("the original was changed:\n%s", diff)
	}
}

// The tags match the run's other fields, whatever package slurm makes of them.
func TestTagsOfARun(t *testing.T) {
	run := fullRun(t)
	slurm.Update(&run, func(run *rt.Run) { run.WorkDir = "/home/alice/secret/" + strings.Repeat("long/", 300) }) // the tag is cut
	run.Meta.JobName, run.Meta.ExternalRunID = "deep_fold", "an id of alice"
	slurm.SetJobName(&run, "deep_fold", true)
	for _, how := range []Disclosure{Pseudonym, None} {
		got := privacy(how).Disguise(run).Run()
		for key, value := range withoutShared(got.Meta.Tags, &run) {
			hasSecret := slices.ContainsFunc([]string{"alice", "deep_fold", "physicists", "47114711", "47124712"}, func(s string) bool { return strings.Contains(key+value, s) })
			if hasSecret || value == "" {
				t.Errorf("%s: %s = %s", how, key, value)
			}
		}
		if got.Meta.ExternalRunID != "an id of alice" {
			t.Errorf("%s: the external id is %q", how, got.Meta.ExternalRunID)
		}
		isThere := func(tag string) bool { _, ok := got.Meta.Tags[tag]; return ok }
		for _, tag := range []string{"slurm_user", "slurm_job_name", "slurm_work_dir"} {
			if isThere(tag) != (how == Pseudonym) {
				t.Errorf("%s: the tags are %v", how, slices.Sorted(maps.Keys(got.Meta.Tags)))
			}
		}
		if isThere("slurm_uid") || isThere("slurm_comment") || !isThere("slurm_partition") {
			t.Errorf("%s: the tags are %v", how, slices.Sorted(maps.Keys(got.Meta.Tags)))
		}
		isEqual := got.Meta.Tags["slurm_work_dir"] == got.WorkDir && got.Meta.Tags["slurm_user"] == got.User && got.Meta.Tags["slurm_job_name"] == got.Meta.JobName
		if !isEqual {
			t.Errorf("%s: the tags are %v, the run is %+v", how, got.Meta.Tags, got.Allocation)
		}
	}
}

// Runs of one user, job and directory can be joined, on any node with the key, and only there.
func TestPseudonymsJoin(t *testing.T) {
	a := privacy(Pseudonym).Disguise(fullRun(t)).Run()
	other := fullRun(t)
	other.Node, other.JobID = "n2", rt.Some[uint64](13)
	b := privacy(Pseudonym).Disguise(other).Run()
	if a.User != b.User || a.WorkDir != b.WorkDir || a.Meta.JobName != b.Meta.JobName || a.Group != b.Group {
		t.Errorf("%q %q %q, %q %q %q", a.User, a.WorkDir, a.Meta.JobName, b.User, b.WorkDir, b.Meta.JobName)
	}
	if a.User != "user-nfth4dprkoqpfnnv" { // HMAC-SHA256: another value loses the joins with what was sent before
		t.Errorf("the pseudonym of alice is %q", a.User)
	}
	elsewhere := privacy(Pseudonym)
	elsewhere.Key = []byte("another key of 16 bytes")
	if c := elsewhere.Disguise(other).Run(); c.User == a.User || c.WorkDir == a.WorkDir {
		t.Errorf("with another key the names are %q, %q", c.User, c.WorkDir)
	}
	same := other
	same.User, same.Group, same.WorkDir, same.Meta.JobName = "x", "x", "x", "x"
	d := privacy(Pseudonym).Disguise(same).Run()
	if names := []string{d.User, d.Group, d.WorkDir, d.Meta.JobName}; len(slices.Compact(slices.Sorted(slices.Values(names)))) != 4 {
		t.Errorf("equal names of different kinds are %q", names)
	}
}

// With Keep, names that have left a node as pseudonyms stay as they are. Others that look like them do not.
func TestPseudonymsStay(t *testing.T) {
	p := privacy(Pseudonym)
	sent := p.Disguise(fullRun(t)).Run()
	if again := p.Disguise(sent).Run(); again.User == sent.User || again.Meta.JobName == sent.Meta.JobName {
		t.Errorf("without Keep: %q %q", again.User, again.Meta.JobName)
	}
	p.Keep = true
	again := p.Disguise(sent).Run()
	for _, pair := range [][2]string{
		{again.User, sent.User}, {again.Group, sent.Group}, {again.WorkDir, sent.WorkDir}, {again.Meta.JobName, sent.Meta.JobName},
		{again.Meta.Tags["slurm_user"], sent.Meta.Tags["slurm_user"]}, {again.Account, sent.Account},
	} {
		if pair[0] != pair[1] || pair[0] == "" {
			t.Errorf("%q is %q", pair[1], pair[0])
		}
	}
	for _, name := range []string{"user-alice", "job-nfth4dprkoqpfnnv", "user-nfth4dprkoqpfnnv2", "user-nfth4dprkoqpfnn1", "user-NFTH4DPRKOQPFNNV"} {
		run := rt.Run{Allocation: rt.Allocation{User: name}}
		if got := p.Disguise(run).Run(); got.User == name {
			t.Errorf("%q stays", name)
		}
	}
}

// A summary has the names as they leave, and not the number of a user. What is no summary of a drain does not leave.
func TestSummaryOfARun(t *testing.T) {
	run := rt.Run{Allocation: rt.Allocation{User: "gpu", Account: "gpu", Partition: "long", GPUs: "gpu:2", NodeList: "gpu", WorkDir: "/w"}}
	run.Meta.JobName = "job"
	of := func(run rt.Run) report.DeliveredFigures {
		s := report.Summary{Run: run, Scope: report.ScopeJob, SlurmState: "CANCELLED by uid 1002"}
		return *s.Delivered()
	}
	text, err := json.Marshal(of(run))
	if err != nil {
		t.Fatal(err)
	}
	d := privacy(Pseudonym).Disguise(run)
	want := of(d.Run())
	want.SlurmState = "CANCELLED"
	wantText, err := json.Marshal(want)
	got := d.Summary(text)
	if err != nil || string(got) != string(wantText) || !bytes.Contains(got, []byte(`"user":"user-`)) || !bytes.Contains(got, []byte(`"gpus":"gpu:2"`)) {
		t.Errorf("%s, not %s: %v", got, wantText, err)
	}
	if got := d.Summary([]byte(`{"cpu":"of gpu"}`)); got != nil {
		t.Errorf("%s", got)
	}
	if got := d.Summary([]byte(`{"of":"gpu","note":{"x":"gpu"}}`)); bytes.Contains(got, []byte("note")) {
		t.Errorf("%s", got)
	}
}

// A registration has facts of the host and what leaves of the run.
func TestRegistrationOfARun(t *testing.T) {
	run := fullRun(t)
	text, err := json.Marshal(sentinel.Registration(upload.DialectSpec, run, rt.Host{HostName: "n1", CloudRegionID: "r"}))
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("{"), []byte(`{"new":"alice",`), 1)
	d := privacy(Pseudonym).Disguise(run)
	got, err := d.Registration(text)
	var is, want map[string]any
	wantText, wantErr := json.Marshal(sentinel.Registration(upload.DialectSpec, d.Run(), rt.Host{HostName: "n1", CloudRegionID: "r"}))
	if err := errors.Join(err, wantErr, json.Unmarshal(got, &is), json.Unmarshal(wantText, &want)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Error(diff)
	}
}

// Each kind of names is decided on its own. A text leaves only if all names do.
func TestKindsAreIndependent(t *testing.T) {
	for _, test := range []struct {
		p                                Privacy
		user, job, dir, comment, account string
	}{
		{Privacy{}, "alice", "alice_fold", "/home/alice", "for alice", "alice"},
		{Privacy{Users: None}, "", "", "", "", ""},
		{Privacy{Jobs: None}, "alice", "", "/home/alice", "", "alice"},
		{Privacy{Directories: None}, "alice", "alice_fold", "", "", "alice"},
		{Privacy{Commands: None}, "alice", "alice_fold", "/home/alice", "", "alice"},
	} {
		run := rt.Run{Allocation: rt.Allocation{User: "alice", UID: rt.Some[uint64](7), WorkDir: "/home/alice", Comment: "for alice", Account: "alice"}}
		run.Meta.JobName = "alice_fold"
		got := test.p.Disguise(run).Run()
		if got.User != test.user || got.Meta.JobName != test.job || got.WorkDir != test.dir || got.Comment != test.comment || got.Account != test.account {
			t.Errorf("%s: %q %q %q %q %q", &test.p, got.User, got.Meta.JobName, got.WorkDir, got.Comment, got.Account)
		}
		if got.UID.Valid() == test.p.Users.hides() {
			t.Errorf("%s: uid %v", &test.p, got.UID)
		}
		isPlain := strings.HasSuffix(test.p.String(), "commands plain")
		if isPlain == test.p.Hides() {
			t.Errorf("%s: hides %v", &test.p, test.p.Hides())
		}
	}
}

// A job or a directory that leaves as it is has no name in it that does not leave.
func TestNamesInOtherNames(t *testing.T) {
	key := func(p Privacy) *Privacy { p.Key = siteKey; return &p }
	for _, test := range []struct {
		p        *Privacy
		job, dir string
		job2, d2 string // "": not at all; "?": a pseudonym
	}{
		{key(Privacy{Users: Pseudonym}), "fold", "/scratch/x", "fold", "?"},
		{key(Privacy{Users: Pseudonym}), "my-ALICE.sh", "/home/bob", "?", "?"},
		{key(Privacy{Users: Pseudonym}), "of physicists", "", "?", ""},
		{key(Privacy{Users: None}), "of alice", "/scratch/x", "", ""},
		{key(Privacy{Jobs: Pseudonym}), "fold", "/scratch/fold-1", "?", "?"},
		{key(Privacy{Jobs: None}), "fold", "/scratch/x", "", "/scratch/x"},
		{key(Privacy{Users: None, Directories: Pseudonym}), "fold", "/home/alice", "fold", "?"},
		{key(Privacy{Commands: None}), "of alice", "/home/alice", "of alice", "/home/alice"},
	} {
		run := rt.Run{Allocation: rt.Allocation{Scheduler: "slurm", User: `LAB\alice`, Group: "physicists", WorkDir: test.dir}}
		slurm.Describe(&run)
		slurm.SetJobName(&run, test.job, true)
		got := test.p.Disguise(run).Run()
		for _, pair := range [][2]string{
			{got.Meta.JobName, test.job2}, {got.WorkDir, test.d2}, {got.Meta.Tags["slurm_job_name"], test.job2}, {got.Meta.Tags["slurm_work_dir"], test.d2},
		} {
			isPseudonym := strings.HasPrefix(pair[0], "job-") || strings.HasPrefix(pair[0], "dir-")
			if isPseudonym != (pair[1] == "?") || !isPseudonym && pair[0] != pair[1] {
				t.Errorf("%s: %q, %q: %q is not %q", test.p, test.job, test.dir, pair[0], pair[1])
			}
		}
	}
}

func TestTextOfARecord(t *testing.T) {
	run := rt.Run{Allocation: rt.Allocation{User: "max", UID: rt.Some[uint64](1000), WorkDir: "/home/max/run"}}
	for _, test := range []struct{ table, column, value, want string }{
		{"process", "comm", "python", ""},
		{"process", "step", "max", "max"},
		{"process", "a new column", "max", ""},
		{"mount", "mount_point", "/", "/"},
		{"mount", "mount_point", "/scratch", "/scratch"},
		{"mount", "mount_point", "/max", "-3"},
		{"mount", "mount_point", "/home/bob", "-1"},
		{"mount", "mount_point", "/home/eve", "-2"},
		{"mount", "fs_type", "max", "max"},
		{"remote_fs", "source", "max@nfs1:/x/y", "-3"},
		{"remote_fs", "source", "lustre1", "-3"},
		{"remote_fs", "kind", "lustre", "lustre"},
		{"remote_fs", "mount_point", "/home/bob", "-1"},
		{"gpu", "name", "max", "max"},
		{"a new table", "x", "of max", ""},
		{"a new table", "x", "", ""},
	} {
		for range 2 { // a new disguise gives the same texts
			d := (&Privacy{Users: None, Jobs: None, Directories: None}).Disguise(run)
			d.Text("mount", "mount_point", "/home/bob")
			d.Text("mount", "mount_point", "/home/eve")
			if got := d.Text(test.table, test.column, test.value); got != test.want {
				t.Errorf("%s.%s %q is %q, want %q", test.table, test.column, test.value, got, test.want)
			}
		}
		if got := new(Privacy).Disguise(run).Text(test.table, test.column, test.value); got != test.value {
			t.Errorf("without [privacy] %q is %q", test.value, got)
		}
	}
	p := (&Privacy{Users: Pseudonym, Key: siteKey}).Disguise(run)
	a, b := p.Text("mount", "mount_point", "/home/bob"), p.Text("mount", "mount_point", "/home/eve")
	if a == b || !strings.HasPrefix(a, "dir-") {
		t.Errorf("%q, %q", a, b)
	}
}

// Events keep the words by which the report finds them and reads their figures, and have no other text.
func TestEventOfARecord(t *testing.T) {
	for _, test := range []struct{ kind, name, status, detail, wantName, wantDetail string }{
		{"job", "sacct", "ok", "max_rss_bytes=1 max_rss_node=n1", "sacct", "max_rss_bytes=1 max_rss_node=n1"},
		{"job", "sacct", "ok", "state=CANCELLED cancelled_by_uid=1001 elapsed_secs=5", "sacct", "state=CANCELLED elapsed_secs=5"},
		{"job", "sacct", "ok", "state=CANCELLED cancelled_by_uid=0 elapsed_secs=5", "sacct", "state=CANCELLED cancelled_by_uid=0 elapsed_secs=5"},
		{"job", "sacct", "not used", "a record of max", "sacct", ""},
		{"gap", "schedule", "missed", "5 readings before snapshot 7", "schedule", "5 readings before snapshot 7"},
		{"spool", "gap/readings", "repeated", "9 further readings", "gap/readings", "9 further readings"},
		{"spool", "spool//home/max/x", "repeated", "9 further", "spool/-", "9 further"},
		{"job", "tasks", "unseen", "2 other readings", "tasks", "2 other readings"},
		{"job", "tasks", "failed", "open /home/max", "tasks", ""},
		{"sensor", "cgroup", "failed", "open /home/max", "cgroup", ""},
		{"spool", "/home/max/spool/x.db", "failed", "open /home/max/run/x", "-", ""},
		{"sensor", "home/max", "failed", "", "-", ""},
		{"other", "of max", "for max", "max", "-", ""},
		{"job", "a new name", "of max", "max", "a new name", ""},
	} {
		e := rt.Event{Kind: test.kind, Name: test.name, Status: test.status, Detail: test.detail}
		(&Privacy{Users: None}).Disguise(rt.Run{}).Event(&e)
		if e.Name != test.wantName || e.Detail != test.wantDetail || test.kind == "other" && e.Kind+e.Status != "--" {
			t.Errorf("%+v, want %q, %q", e, test.wantName, test.wantDetail)
		}
		same := rt.Event{Kind: test.kind, Name: test.name, Status: test.status, Detail: test.detail}
		new(Privacy).Disguise(rt.Run{}).Event(&same)
		if same.Name != test.name || same.Detail != test.detail {
			t.Errorf("without [privacy] %+v", same)
		}
	}
}

// The name of an account, a partition or a QOS leaves, also if a job or a group has the same name.
// A user's name does not leave.
func TestPublicLabels(t *testing.T) {
	run := rt.Run{Identity: rt.Identity{Cluster: "lab"}, Allocation: rt.Allocation{
		Scheduler: "slurm", User: "alice", Group: "physics", Account: "physics", Partition: "debug-x", QOS: "debug",
	}}
	slurm.Describe(&run)
	slurm.SetJobName(&run, "debug", true)
	p := &Privacy{Users: None, Jobs: None}
	got := p.Disguise(run).Run()
	isSame := got.Account == "physics" && got.Partition == "debug-x" && got.QOS == "debug"
	isSameMeta := got.Meta.ProjectName == "physics" && got.Meta.Executor == "lab/debug-x" && got.Meta.Tags["slurm_partition"] == "debug-x"
	if !isSame || !isSameMeta || got.Meta.JobName != "" || got.Group != "" || got.Meta.Tags["slurm_job_name"] != "" {
		t.Errorf("%+v, %+v", got.Allocation, got.Meta)
	}
	run.Account, run.Meta.ProjectName = "alice", "alice"
	if got := p.Disguise(run).Run(); got.Account != "" || got.Meta.ProjectName != "" {
		t.Errorf("%+v, %+v", got.Allocation, got.Meta)
	}
}

// An account whose name contains the name of one user is the same in the runs of all users. So its
// coordinators see all jobs of the account.
func TestAccountsOfManyUsers(t *testing.T) {
	for _, user := range []string{"alice", "bob", `LAB\Alice`} {
		for _, how := range []Disclosure{Pseudonym, None} {
			run := rt.Run{Identity: rt.Identity{Cluster: "lab"}, Allocation: rt.Allocation{
				Scheduler: "slurm", User: user, Account: "alice-lab", Partition: "def_alice", QOS: "alice.high", Reservation: "alice-lab-1", Comment: "of alice-lab, def_alice",
			}}
			slurm.Describe(&run)
			p := privacy(how)
			p.Commands = Plain
			got := p.Disguise(run).Run()
			tags := got.Meta.Tags
			texts := []string{got.Account, got.Partition, got.QOS, got.Meta.ProjectName, got.Meta.Executor, tags["slurm_account"], tags["slurm_partition"], tags["slurm_qos"]}
			want := []string{"alice-lab", "def_alice", "alice.high", "alice-lab", "lab/def_alice", "alice-lab", "def_alice", "alice.high"}
			if diff := cmp.Diff(want, texts); diff != "" {
				t.Errorf("%s, %s: %s", user, how, diff)
			}
			if got.Reservation+got.Comment != "" {
				t.Errorf("%s, %s: %q, %q", user, how, got.Reservation, got.Comment)
			}
		}
	}
	run := rt.Run{Identity: rt.Identity{Cluster: "lab"}, Allocation: rt.Allocation{Scheduler: "slurm", User: "alice", Account: "Alice", Partition: "alice"}}
	slurm.Describe(&run)
	got := privacy(Pseudonym).Disguise(run).Run()
	user := UserPseudonym(siteKey, "alice")
	if got.Account != user || got.Partition != user || got.Meta.ProjectName != user || got.Meta.Executor != "lab/"+user {
		t.Errorf("an account of one user: %+v, %+v", got.Allocation, got.Meta)
	}
}

// A directory service gives a user several names: with its domain, without it, and in upper and lower case.
func TestQualifiedUsers(t *testing.T) {
	for _, user := range []string{`alice@example.org`, `EXAMPLE\alice`, "alice", "Alice"} {
		for _, how := range []Disclosure{Pseudonym, None} {
			run := rt.Run{Identity: rt.Identity{Cluster: "lab"}, Allocation: rt.Allocation{
				User: user, UID: rt.Some[uint64](4711), Account: "ALICE", QOS: "alice@elsewhere", Partition: "malice",
			}}
			got := (&Privacy{Users: how, Key: siteKey}).Disguise(run).Run()
			if got.Account != got.User || got.QOS != got.User || strings.Contains(strings.ToLower(got.User), "ali") {
				t.Errorf("%s, %s: %q, %q, %q", user, how, got.User, got.Account, got.QOS)
			}
			if got.Partition != "malice" {
				t.Errorf("%s, %s: a word that has the name is %q", user, how, got.Partition)
			}
			run.Account, run.User, run.Meta.Tags = "4711", "", map[string]string{"slurm_user": user}
			if got := (&Privacy{Users: how, Key: siteKey}).Disguise(run).Run(); got.Account == "4711" || got.QOS == "alice@elsewhere" {
				t.Errorf("%s, %s: of a run with tags only %q, %q", user, how, got.Account, got.QOS)
			}
		}
	}
}

// No field of a run has the user, the job, the directory or a text.
func FuzzDisguise(f *testing.F) {
	f.Add("alice", "job", "/home/alice", "alice runs job in /home/alice\xff")
	f.Fuzz(func(t *testing.T, user, job, dir, text string) {
		secret := func(of string) string { return mark + of }
		run := rt.Run{Allocation: rt.Allocation{
			User: secret(user), WorkDir: secret(dir), Account: secret(user), Comment: secret(text), Reservation: secret(text), Licenses: secret(text),
		}}
		run.Meta = rt.Metadata{JobName: secret(job), TaskName: secret(text), Team: secret(user), Tags: map[string]string{secret(text): secret(dir), "slurm_gpus": secret(text)}}
		slurm.Describe(&run)
		p := Privacy{Users: None, Jobs: Pseudonym, Directories: Pseudonym, Key: siteKey}
		a, err := json.Marshal(p.Disguise(run).Run())
		b, errAgain := json.Marshal(p.Disguise(run).Run())
		if err != nil || errAgain != nil || !bytes.Equal(a, b) || bytes.Contains(a, []byte(mark)) {
			t.Errorf("%s, %s, %v, %v", a, b, err, errAgain)
		}
	})
}

func TestReadKey(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	write := func(text string, mode os.FileMode) {
		t.Helper()
		_ = os.Remove(file)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, mode := range []os.FileMode{0o600, 0o400, 0o640} {
		write(" 0123456789abcdef\n", mode)
		if key, err := ReadKey(file); err != nil || string(key) != string(siteKey) {
			t.Errorf("%04o: %q, %v", mode, key, err)
		}
	}
	refused := func(what, reason string) {
		t.Helper()
		key, err := ReadKey(what)
		if err == nil || key != nil || !strings.Contains(err.Error(), "privacy.key_file") || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %q, %v; want an error with %q", what, key, err, reason)
		}
		if err != nil && strings.Contains(err.Error(), string(siteKey)) {
			t.Errorf("the error has the key: %v", err)
		}
	}
	for _, mode := range []os.FileMode{0o644, 0o604, 0o602, 0o660, 0o601} {
		write("0123456789abcdef", mode)
		refused(file, "chmod 0600")
	}
	write("0123456789abcde\n\n\n", 0o600)
	refused(file, "15 bytes")
	write(strings.Repeat("x", maxKey+1), 0o600)
	refused(file, "more than")
	refused("", "not set")
	refused(filepath.Join(dir, "none"), "no such file")
	refused(dir, "directory")
	refused("/dev/null", "privacy.key_file")
}

// The site computes the name under which a node delivers the runs of a user.
func TestUserPseudonymIsThatOfARun(t *testing.T) {
	key := []byte("0123456789abcdef")
	p := Privacy{Users: Pseudonym, Key: key}
	run := p.Disguise(rt.Run{Allocation: rt.Allocation{User: "alice"}}).Run()
	if got := UserPseudonym(key, "alice"); got != run.User || got == "alice" {
		t.Errorf("%s, and the run has %s", got, run.User)
	}
}
