package drain

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/slurm"
)

// Disclosure is how the names of one kind leave a node.
type Disclosure string

// The disclosures. The empty one is Plain.
const (
	Plain     Disclosure = "plain"     // as they are
	Pseudonym Disclosure = "pseudonym" // replaced by a keyed hash, the same for the same name
	None      Disclosure = "none"      // not at all
)

func (d Disclosure) hides() bool { return d == Pseudonym || d == None }

// Privacy decides which names leave a node when a run is delivered. With the zero value all leave.
//
// If one kind of names is hidden, a field leaves only if this package knows that it has no other
// names. Such fields are numbers, ids, states, facts of the machine, and the names below as their
// Disclosure says. A text that a user or another program wrote does not leave. Directories are
// hidden with users, and so is the name of a job or a directory that contains a hidden name.
//
// Names of hosts, clusters, accounts, partitions and QOS and the ids of jobs and runs always leave.
// The exception is an account, a partition or a QOS with the name of the user. An account that
// contains this name, such as alice-lab, has many users and leaves the same in all their runs.
type Privacy struct {
	Users       Disclosure // names of users and their groups; their numbers leave only if this is Plain
	Jobs        Disclosure // names of jobs
	Directories Disclosure // working directories
	Commands    Disclosure // command lines and all other texts: Plain or None; as None if other names are hidden
	Key         []byte     // of the pseudonyms: the same on all nodes of a site
	// Keep leaves what has the form of a pseudonym as it is, for texts that have left a node before. Without
	// it a user could give a job such a name.
	Keep bool
}

// String describes what leaves.
func (p *Privacy) String() string {
	commands := Plain
	if p.Hides() {
		commands = None
	}
	return fmt.Sprintf("users %s, jobs %s, directories %s, commands %s",
		cmp.Or(p.Users, Plain), cmp.Or(p.Jobs, Plain), cmp.Or(p.directories(), Plain), commands)
}

// directories returns how directories leave: as users if only these are hidden, as the paths of homes have their names.
func (p *Privacy) directories() Disclosure {
	if p.Users.hides() && !p.Directories.hides() {
		return p.Users
	}
	return p.Directories
}

// Hides reports whether some names do not leave as they are.
func (p *Privacy) Hides() bool {
	return p.Users.hides() || p.Jobs.hides() || p.Directories.hides() || p.Commands.hides()
}

// kind is a kind of names. It begins a pseudonym, so that one name has another pseudonym in each
// kind.
type kind string

const (
	kindUser      kind = "user"
	kindGroup     kind = "group"
	kindJob       kind = "job"
	kindDirectory kind = "dir"
)

// pseudonymBits is the length of the hash in a pseudonym: of a million names two have the same one
// with a probability below 10^-12.
const pseudonymBits = 80

// pseudonym returns the name under which another name of a kind leaves, such as
// user-mzxw6ytboi5dgmrq.
func (p *Privacy) pseudonym(k kind, name string) string {
	if p.Keep && rt.IsPseudonym(string(k), name) {
		return name
	}
	mac := hmac.New(sha256.New, p.Key)
	fmt.Fprintf(mac, "%s\x00%s", k, name)
	sum := mac.Sum(nil)[:pseudonymBits/8]
	return string(k) + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum))
}

// UserPseudonym returns the pseudonym of a user with a key.
func UserPseudonym(key []byte, user string) string {
	return (&Privacy{Key: key}).pseudonym(kindUser, user)
}

// disclose returns a name as it leaves; empty for none.
func (p *Privacy) disclose(how Disclosure, k kind, name string) string {
	switch {
	case name == "", how == None:
		return ""
	case how == Pseudonym:
		return p.pseudonym(k, name)
	}
	return name
}

// Disguise is a Privacy applied to one run and to all that was recorded about the run. A new
// Disguise of the same run gives the same texts.
type Disguise struct {
	*Privacy
	user  string         // name of the user, which an account can have too
	uid   rt.Opt[uint64] // number of the user
	group string
	job   string         // its name
	run   rt.Run         // as it leaves
	paths map[string]int // numbers of the paths of mounts that do not leave
}

// Disguise returns the disguise of a run.
func (p *Privacy) Disguise(run rt.Run) *Disguise {
	d := &Disguise{
		Privacy: p, user: cmp.Or(run.User, run.Meta.Tags[tagUser]), uid: run.UID, group: run.Group, job: run.Meta.JobName,
		run: run, paths: map[string]int{},
	}
	if p.Hides() {
		d.run = d.hideRun(&run)
	}
	return d
}

// Run returns the run as it leaves.
func (d *Disguise) Run() rt.Run { return d.run }

// hideRun returns a run with those fields that leave. A new field does not leave before it is listed here.
func (d *Disguise) hideRun(run *rt.Run) rt.Run {
	hidden := rt.Run{
		Identity: run.Identity,
		Allocation: rt.Allocation{
			Scheduler: run.Scheduler, User: d.userName(run.User), Group: d.disclose(d.Users, kindGroup, run.Group),
			Account: d.label(run.Account), Partition: d.label(run.Partition), QOS: d.label(run.QOS),
			NodeList: run.NodeList, NumNodes: run.NumNodes, AllocCPUs: run.AllocCPUs, AllocMem: run.AllocMem, GPUs: run.GPUs,
			WorkDir: d.directory(run.WorkDir), StepTasks: run.StepTasks, JobStart: run.JobStart, JobEndLimit: run.JobEndLimit,
		},
		PID: run.PID, Interval: run.Interval, CgroupLayout: run.CgroupLayout, TrackerVersion: run.TrackerVersion,
		Ending: run.Ending,
	}
	if !d.Users.hides() {
		hidden.UID, hidden.GID = run.UID, run.GID
	}
	hidden.Meta = d.hideMetadata(run, hidden)
	return hidden
}

// The tags that have names of their own, see package slurm.
const (
	tagUser    = "slurm_user"
	tagJobName = "slurm_job_name"
)

// hideMetadata returns the metadata that leaves: the name of the job, the external id, and what
// comes from other fields of the hidden run. What a user sets does not leave.
func (d *Disguise) hideMetadata(run *rt.Run, hidden rt.Run) rt.Metadata {
	was, now := *run, hidden
	was.Meta, now.Meta = rt.Metadata{}, rt.Metadata{}
	slurm.Describe(&was)
	slurm.Describe(&now)
	var out rt.Metadata
	for _, field := range rt.MetadataFields {
		if *run.Meta.Field(field) == *was.Meta.Field(field) {
			*out.Field(field) = *now.Meta.Field(field)
		}
	}
	out.JobName, out.ExternalRunID = d.jobName(run.Meta.JobName), run.Meta.ExternalRunID
	if run.Meta.Tags == nil {
		return out
	}
	out.Tags = map[string]string{}
	for tag, value := range now.Meta.Tags {
		if run.Meta.Tags[tag] == was.Meta.Tags[tag] {
			out.Tags[tag] = value
		}
	}
	if name := d.jobName(run.Meta.Tags[tagJobName]); name != "" {
		out.Tags[tagJobName] = name
	}
	return out
}

// label returns an account, a partition or a QOS as it leaves. One that has the name of the user leaves as the user does.
func (d *Disguise) label(value string) string {
	uid, hasUID := d.uid.Get()
	isUser := strings.EqualFold(unqualified(value), unqualified(d.user))
	isUID := hasUID && value == strconv.FormatUint(uid, 10)
	isNamed := isUser || isUID
	if isNamed && d.Users.hides() {
		return d.userName(d.user)
	}
	return value
}

func (d *Disguise) userName(name string) string { return d.disclose(d.Users, kindUser, name) }

// jobName returns the name of a job as it leaves. One that has the name of the user or the group leaves as these do.
func (d *Disguise) jobName(name string) string {
	how := d.Jobs
	isPlain := !how.hides() && d.Users.hides()
	hasName := has(name, unqualified(d.user)) || has(name, d.group)
	if isPlain && hasName {
		how = d.Users
	}
	return d.disclose(how, kindJob, name)
}

// directory returns a directory as it leaves. One that has the name of the job leaves as the job does.
func (d *Disguise) directory(path string) string {
	how := d.directories()
	isPlain := !how.hides() && d.Jobs.hides()
	if isPlain && has(path, d.job) {
		how = d.Jobs
	}
	return d.disclose(how, kindDirectory, path)
}

// has reports whether a text has a name in it, in upper or lower case.
func has(text, name string) bool {
	return name != "" && strings.Contains(strings.ToLower(text), strings.ToLower(name))
}

// unqualified returns the name of a user without the domain, as of alice@example.org and EXAMPLE\alice.
func unqualified(user string) string {
	name := user[strings.LastIndexByte(user, '\\')+1:]
	name, _, _ = strings.Cut(name, "@")
	return name
}
