package delivery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// Text returns a text of the spool file of the run as it leaves: the value of a column of a table
// other than run. Texts of devices, steps and hosts, and the words by which events are found, are
// not changed.
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
	case "event":
		return d.event(column, value)
	}
	return d.text(value, isInWord)
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
		Text: func(table, column, text string) string { return d.Text(table, column, text) },
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
		for _, h := range d.names {
			if strings.HasPrefix(h.name, value) {
				return h.substitute
			}
		}
	}
	return d.text(value, isInWord)
}

// mount returns a column of a mounted file system. The homes of other users can be mounted too: of a
// path only the first directory leaves, as of server:/export/home.
func (d *Disguise) mount(column, value string) string {
	isPath := column == "mount_point" || column == "source"
	isPlain := !d.Users.hides() && !d.Directories.hides()
	slash := strings.IndexByte(value, '/')
	if !isPath || isPlain || slash < 0 {
		return value
	}
	first, rest, isDeeper := strings.Cut(value[slash+1:], "/")
	if !isDeeper {
		return value[:slash+1] + d.text(first, isInWord)
	}
	return value[:slash+1] + d.text(first, isInWord) + "/" + d.mountPath(rest)
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

func (d *Disguise) event(column, value string) string {
	isPath := column == "name" && strings.Contains(value, "/")
	if column == "detail" || isPath {
		return d.text(value, isInField)
	}
	return value
}

// text returns a text without the names that do not leave. A name is replaced where it is a whole
// word: joined reports whether two neighbours are in one word.
func (d *Disguise) text(text string, joined func(a, b byte) bool) string {
	var out strings.Builder
	from := 0
	for at := 0; at < len(text); {
		i := slices.IndexFunc(d.names, func(h hidden) bool { return isWordAt(text, at, h.name, joined) })
		if i < 0 {
			at++
			continue
		}
		out.WriteString(text[from:at])
		out.WriteString(d.names[i].substitute)
		at += len(d.names[i].name)
		from = at
	}
	if from == 0 {
		return text
	}
	out.WriteString(text[from:])
	return out.String()
}

// isWordAt reports whether a name is a word of the text at an index.
func isWordAt(text string, at int, name string, joined func(a, b byte) bool) bool {
	end := at + len(name)
	switch {
	case !strings.HasPrefix(text[at:], name):
		return false
	case at > 0 && joined(text[at-1], name[0]):
		return false
	case end < len(text) && joined(name[len(name)-1], text[end]):
		return false
	}
	return true
}

// isInWord joins letters and digits: alice is a word of alice_2 and of /home/alice/run.
func isInWord(a, b byte) bool { return isAlphanumeric(a) && isAlphanumeric(b) }

// isInField also joins "_", so that no name of a figure in the detail of an event is changed, as
// that of max_rss_bytes=1 for the user max.
func isInField(a, b byte) bool {
	isField := func(c byte) bool { return c == '_' || isAlphanumeric(c) }
	return isField(a) && isField(b)
}

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
