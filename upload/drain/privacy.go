package drain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
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

// Privacy decides which names leave a node when a run is delivered. The zero value sends all of
// them. Names of hosts, clusters, accounts, partitions and QOS and the ids of jobs and runs always leave,
// except for an account, a partition or a QOS that has the name of the user. One that contains this name, such as
// alice-lab, is of many users and leaves: it must be the same in the runs of all of them.
type Privacy struct {
	Users       Disclosure // names of users and their groups; their numbers leave only if this is Plain
	Jobs        Disclosure // names of jobs
	Directories Disclosure // working directories
	Commands    Disclosure // command lines, comments, names of processes: Plain or None
	Key         []byte     // of the pseudonyms: the same on all nodes of a site
	// Keep leaves what has the form of a pseudonym as it is, for texts that have left a node before. Without
	// it a user could give a job such a name.
	Keep bool
}

// String describes what leaves.
func (p *Privacy) String() string {
	var parts []string
	for _, kind := range [...]struct {
		what string
		how  Disclosure
	}{{"users", p.Users}, {"jobs", p.Jobs}, {"directories", p.Directories}, {"commands", p.Commands}} {
		how := kind.how
		if how == "" {
			how = Plain
		}
		parts = append(parts, kind.what+" "+string(how))
	}
	return strings.Join(parts, ", ")
}

// Hides reports whether some names do not leave as they are.
func (p *Privacy) Hides() bool {
	return p.Users.hides() || p.Jobs.hides() || p.Directories.hides() || p.Commands.hides()
}

// kind is a kind of names. It begins a pseudonym, and makes the pseudonyms of one kind differ from
// those of another.
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

// hashForm is the form of the hash in a pseudonym.
var hashForm = regexp.MustCompile("^[a-z2-7]{16}$")

// pseudonym returns the name under which another name of a kind leaves, such as
// user-mzxw6ytboi5dgmrq.
func (p *Privacy) pseudonym(k kind, name string) string {
	hash, isPseudonym := strings.CutPrefix(name, string(k)+"-")
	if p.Keep && isPseudonym && hashForm.MatchString(hash) {
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

// Disguise is a Privacy applied to one run: it replaces the names of the run in the run itself and in
// other texts about it. A new Disguise of the same run gives the same texts.
type Disguise struct {
	*Privacy
	run    rt.Run
	names  []hidden       // that do not leave, the longest first
	texts  []hidden       // names, and the words of the command: for events and the reports of other programs
	public []string       // labels that leave
	paths  map[string]int // numbers of the paths of mounts that do not leave
}

// hidden is a name that does not leave, and its substitute in a text.
type hidden struct {
	name, substitute string
	isNumber         bool // of digits only
	anyCase          bool // of ASCII letters: directory services write the name of a user in several ways
}

// gone is the substitute of a name that does not leave at all, in a text with other words.
const gone = "-"

// Disguise returns the disguise of a run.
func (p *Privacy) Disguise(run rt.Run) *Disguise {
	d := &Disguise{Privacy: p, run: run, paths: map[string]int{}}
	if !p.Hides() {
		return d
	}
	d.public = []string{
		run.Account, run.Partition, run.QOS, run.Scheduler, run.Cluster, run.Cluster + "/" + run.Partition, run.Step, run.Node,
	}
	tags := run.Meta.Tags
	if p.Users.hides() {
		d.add(kindUser, run.User, unqualified(run.User), tags[tagUser], unqualified(tags[tagUser]), tags[tagUID])
		if uid, ok := run.UID.Get(); ok {
			d.add(kindUser, strconv.FormatUint(uid, 10))
		}
		d.public = slices.DeleteFunc(d.public, d.isName)
		d.add(kindGroup, run.Group)
	}
	if p.Jobs.hides() {
		d.add(kindJob, run.Meta.JobName, tags[tagJobName])
	}
	if p.Directories.hides() {
		d.add(kindDirectory, run.WorkDir, d.workDir(tags[tagWorkDir]))
	}
	d.texts = slices.Clone(d.names)
	if p.Commands == None {
		d.texts = append(d.texts, commandWords(&run)...)
	}
	for _, list := range [...][]hidden{d.names, d.texts} {
		sortByLength(list)
	}
	return d
}

func (d *Disguise) of(k kind) Disclosure {
	switch k {
	case kindJob:
		return d.Jobs
	case kindDirectory:
		return d.Directories
	}
	return d.Users
}

// add adds the names that a text may have. A number is too common to be searched, except as the
// directory of a user. A label that leaves is no secret as the name of a job or a group.
func (d *Disguise) add(k kind, names ...string) {
	for _, name := range names {
		substitute := gone
		if d.of(k) == Pseudonym {
			substitute = d.pseudonym(k, name)
		}
		if k == kindDirectory {
			name = strings.TrimRight(name, "/")
		}
		isNumber := strings.Trim(name, "0123456789") == ""
		isUser := k == kindUser
		isPublic := !isUser && slices.Contains(d.public, name)
		isSearched := isUser || !isNumber
		if name != "" && isSearched && !isPublic {
			d.names = append(d.names, hidden{name, substitute, isNumber, isUser})
		}
	}
}

// unqualified returns the name of a user without the domain, as of alice@example.org and EXAMPLE\alice.
func unqualified(user string) string {
	name := user[strings.LastIndexByte(user, '\\')+1:]
	name, _, _ = strings.Cut(name, "@")
	return name
}

// minCommandWord is the length of an argument, in bytes, that is searched in other texts.
const minCommandWord = 5

// commandWords returns the program, the arguments and the comment of a run.
func commandWords(run *rt.Run) (list []hidden) {
	words := append(slices.Clone(run.Command), run.Comment, run.Meta.Tags[tagComment])
	if len(run.Command) > 0 {
		words = append(words, path.Base(run.Command[0]))
	}
	for _, word := range words {
		isNumber := strings.Trim(word, "0123456789") == ""
		if len(word) >= minCommandWord && !isNumber {
			list = append(list, hidden{name: word, substitute: gone})
		}
	}
	return list
}

// name returns a whole value that is a name as it leaves; empty for none.
func (d *Disguise) name(k kind, value string) string {
	switch how := d.of(k); {
	case value == "", how == None:
		return ""
	case how == Pseudonym:
		return d.pseudonym(k, value)
	}
	return d.label(value)
}

// isName reports whether a label, or its part after the last slash as of CLUSTER/PARTITION, is one of the names.
func (d *Disguise) isName(label string) bool {
	last := path.Base(label)
	return slices.ContainsFunc(d.names, func(h hidden) bool { return len(h.name) == len(last) && h.beginsWith(last, len(last)) })
}

// label returns a text as it leaves; empty if it is a name that does not leave.
func (d *Disguise) label(value string) string {
	if slices.Contains(d.public, value) {
		return value
	}
	out := d.replace(value, d.names)
	if out == gone {
		return ""
	}
	return out
}

// The tags of a run that have a value of another field, see package slurm.
const (
	tagUser    = "slurm_user"
	tagUID     = "slurm_uid"
	tagJobName = "slurm_job_name"
	tagWorkDir = "slurm_work_dir"
	tagComment = "slurm_comment"
)

// Run returns the run as it leaves. It shares nothing that it changes with the original.
func (d *Disguise) Run() rt.Run {
	run := d.run
	if !d.Hides() {
		return run
	}
	run.User, run.Group = d.name(kindUser, run.User), d.name(kindGroup, run.Group)
	if d.Users.hides() {
		run.UID, run.GID = rt.None[uint64](), rt.None[uint64]()
	}
	run.WorkDir, run.Meta.JobName = d.name(kindDirectory, run.WorkDir), d.name(kindJob, run.Meta.JobName)
	run.Command, run.Comment = d.command(run.Command), d.comment(run.Comment)
	run.Meta.Tags = d.tags(run.Meta.Tags)
	for _, label := range [...]*string{
		&run.Account, &run.Partition, &run.QOS, &run.Reservation, &run.Constraints, &run.Licenses, &run.CgroupPath,
		&run.Meta.ProjectName, &run.Meta.StageName, &run.Meta.TaskName, &run.Meta.Team, &run.Meta.Env, &run.Meta.Language,
		&run.Meta.Orchestrator, &run.Meta.Executor, &run.Meta.ContainerImage,
	} {
		*label = d.label(*label)
	}
	return run
}

func (d *Disguise) command(argv []string) (out []string) {
	if d.Commands == None {
		return nil
	}
	for _, arg := range argv {
		out = append(out, d.replace(arg, d.names))
	}
	return out
}

func (d *Disguise) comment(text string) string {
	if d.Commands == None {
		return ""
	}
	return d.label(text)
}

// tags returns the tags as they leave. An empty one does not.
func (d *Disguise) tags(tags map[string]string) map[string]string {
	if tags == nil {
		return nil
	}
	out := make(map[string]string, len(tags))
	for key, value := range tags {
		value = d.tag(key, value)
		if value != "" {
			out[d.replace(key, d.names)] = value
		}
	}
	return out
}

func (d *Disguise) tag(key, value string) string {
	switch key {
	case tagUser:
		return d.name(kindUser, value)
	case tagUID:
		if d.Users.hides() {
			return ""
		}
	case tagJobName:
		return d.name(kindJob, value)
	case tagWorkDir:
		return d.name(kindDirectory, d.workDir(value))
	case tagComment:
		return d.comment(value)
	case "slurm_nodelist", "slurm_gpus", "slurm_sluid":
		return value
	}
	return d.label(value)
}

// workDir returns the directory of a tag, which is cut if it is long.
func (d *Disguise) workDir(tag string) string {
	if strings.HasPrefix(d.run.WorkDir, tag) {
		return d.run.WorkDir
	}
	return tag
}
