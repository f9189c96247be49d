package drain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// Text returns a text of the spool file of the run as it leaves: the value of a column of a table
// other than run, event and record. Texts of devices, steps and hosts are not changed.
func (d *Disguise) Text(table, column, value string) string {
	if value == "" || !d.Hides() {
		return value
	}
	switch table {
	case "host", "net", "disk", "gpu", "gpu_process", "fabric", "energy", "perf", "step":
		return value
	case "process":
		return d.process(column, value)
	case "mount", "remote_fs":
		return d.mount(column, value)
	}
	return d.replace(value, d.names)
}

// RecordOptions returns what alters one record of a run; nil for nothing. A record begins with the
// run, which has the names that the texts after it may have.
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
		Record: func(rec *rt.Record) bool { return d.Record(rec) },
		Text:   func(table, column, text string) string { return d.Text(table, column, text) },
	}
}

// commLength is the number of bytes that the kernel keeps of the name of a process.
const commLength = 15

func (d *Disguise) process(column, value string) string {
	switch {
	case column != "comm":
		return value
	case d.Commands == None:
		return ""
	case len(value) == commLength:
		value = d.completed(value)
	}
	return d.replace(value, d.names)
}

// minCut is the length in bytes from which the end of a cut name of a process is taken for a name.
const minCut = 3

// completed returns the name of a process that the kernel has cut within a name that does not leave,
// with the whole of that name.
func (d *Disguise) completed(comm string) string {
	for at := range len(comm) - minCut + 1 {
		isStart := at == 0 || !isInWord(comm[at-1], comm[at])
		i := slices.IndexFunc(d.names, func(h hidden) bool { return h.beginsWith(comm[at:], len(comm)-at) })
		if isStart && i >= 0 {
			return comm[:at] + d.names[i].name
		}
	}
	return comm
}

// mount returns a column of a mounted file system. The homes of other users can be mounted too: of a
// path only the first directory leaves, as of server:/export/home.
func (d *Disguise) mount(column, value string) string {
	isPath := column == "mount_point" || column == "source"
	isPlain := !d.Users.hides() && !d.Directories.hides()
	slash := strings.IndexByte(value, '/')
	if !isPath || isPlain {
		return value
	}
	before, path := value[:slash+1], value[slash+1:]
	first, rest, isDeeper := strings.Cut(path, "/")
	if slash < 0 || !isDeeper {
		return d.replace(value, d.names)
	}
	return d.replace(before, d.names) + d.replace(first, d.names) + "/" + d.mountPath(rest)
}

// mountPath returns different substitutes for different paths, because the figures of file systems
// are added up by their names.
func (d *Disguise) mountPath(path string) string {
	how := d.Users
	if d.Directories.hides() {
		how = d.Directories
	}
	if how == Pseudonym {
		return d.pseudonym(kindDirectory, path)
	}
	n, isKnown := d.paths[path]
	if !isKnown {
		n = len(d.paths) + 1
		d.paths[path] = n
	}
	return fmt.Sprintf("%s%d", gone, n)
}

// uidForms are the forms in which a text has the number of a user or a group: uid_1000 of Slurm,
// user-1000.slice, user@1000.service and /run/user/1000 of systemd, uid 1000 and uid=1000 of messages.
var uidForms = regexp.MustCompile(`((?:^|[^0-9A-Za-z])(?:[ug]id[_= ]|user[-@])|/user/)[0-9]+`)

// slurmsWord matches the elements of the path of a cgroup that are no names.
var slurmsWord = regexp.MustCompile(`^(?:(?:job|step|task)_\w+|slurm|slurmstepd\.scope|(?:system|user)\.slice)(?:[^-.\w]|$)`)

// replace returns a text without these names and the numbers of users. A name is replaced where it is a
// whole word.
func (d *Disguise) replace(text string, names []hidden) string {
	if d.Users.hides() {
		text = uidForms.ReplaceAllString(text, "${1}"+gone)
	}
	var out strings.Builder
	from := 0
	for at := 0; at < len(text); {
		i := slices.IndexFunc(names, func(h hidden) bool { return h.isAt(text, at) })
		if i < 0 {
			at++
			continue
		}
		out.WriteString(text[from:at])
		out.WriteString(names[i].substitute)
		at += len(names[i].name)
		from = at
	}
	if from == 0 {
		return text
	}
	out.WriteString(text[from:])
	return out.String()
}

// isAt reports whether a name is a word of the text at an index, and not a word of Slurm.
func (h *hidden) isAt(text string, at int) bool {
	end := at + len(h.name)
	if !h.beginsWith(text[at:], len(h.name)) {
		return false
	}
	isElement := at > 0 && text[at-1] == '/'
	switch {
	case h.isNumber && !isElement:
		return false
	case at > 0 && isInWord(text[at-1], h.name[0]):
		return false
	case end < len(text) && isInWord(h.name[len(h.name)-1], text[end]):
		return false
	}
	return !isElement || !slurmsWord.MatchString(text[at:])
}

// beginsWith reports whether a text begins with the first n bytes of the name.
func (h *hidden) beginsWith(text string, n int) bool {
	if n > len(h.name) || n > len(text) {
		return false
	}
	if !h.anyCase {
		return text[:n] == h.name[:n]
	}
	for i := range n {
		if lower(text[i]) != lower(h.name[i]) {
			return false
		}
	}
	return true
}

// lower returns the lower case of an ASCII letter, and any other byte as it is.
func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// isInWord joins letters and digits: alice is a word of alice_2 and of /home/alice/run.
func isInWord(a, b byte) bool { return isAlphanumeric(a) && isAlphanumeric(b) }

// isAlphanumeric is true for the bytes of letters that are not ASCII.
func isAlphanumeric(c byte) bool {
	isLetter := (c|0x20) >= 'a' && (c|0x20) <= 'z'
	isDigit := c >= '0' && c <= '9'
	return isLetter || isDigit || c >= 0x80
}

// sortByLength puts the longest names first, so that a directory is found before the user in it.
func sortByLength(names []hidden) {
	slices.SortStableFunc(names, func(a, b hidden) int { return len(b.name) - len(a.name) })
}
