package procfile

import (
	"bytes"
	"strings"
)

// Mount is a line of /proc/<pid>/mountinfo, see proc_pid_mountinfo(5).
type Mount struct {
	Major, Minor uint64 // of the file system's device; major 0 if it is no block device
	Root         string // the directory of the file system that is mounted
	Point        string // the mount point, an absolute path
	FSType       string
	Source       string
	SuperOptions string // separated by commas
}

// ParseMountinfo returns the mounts in the order of the lines. Lines of another form
// are skipped.
func ParseMountinfo(b []byte) []Mount {
	var mounts []Mount
	for len(b) > 0 {
		var line []byte
		line, b = Line(b)
		if m, ok := parseMount(line); ok {
			mounts = append(mounts, m)
		}
	}
	return mounts
}

// parseMount parses
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//
// with any number of optional fields before the dash.
func parseMount(line []byte) (m Mount, ok bool) {
	left, right, ok := bytes.Cut(line, []byte(" - "))
	if !ok {
		return m, false
	}
	device, left := Field(Skip(left, 2))
	major, minor, _ := bytes.Cut(device, []byte{':'})
	var isMajor, isMinor bool
	m.Major, isMajor = Uint(major)
	m.Minor, isMinor = Uint(minor)
	for _, dst := range [...]*string{&m.Root, &m.Point} {
		*dst, left = text(left)
	}
	for _, dst := range [...]*string{&m.FSType, &m.Source, &m.SuperOptions} {
		*dst, right = text(right)
	}
	return m, isMajor && isMinor && strings.HasPrefix(m.Point, "/") && m.FSType != ""
}

// text cuts the first word off a line and undoes its escapes.
func text(line []byte) (word string, rest []byte) {
	w, rest := Field(line)
	return Unescape(w), rest
}

// Unescape undoes the octal escapes of a word of mountinfo or of /proc/<pid>/mounts:
// \040 is a blank.
func Unescape(word []byte) string {
	return string(AppendUnescaped(nil, word))
}

// AppendUnescaped is Unescape into dst.
func AppendUnescaped(dst, word []byte) []byte {
	isOctal := func(c byte) bool { return c >= '0' && c <= '7' }
	for i := 0; i < len(word); i++ {
		w := word[i:]
		if w[0] == '\\' && len(w) > 3 && w[1] <= '3' && isOctal(w[1]) && isOctal(w[2]) && isOctal(w[3]) {
			dst = append(dst, (w[1]-'0')<<6|(w[2]-'0')<<3|(w[3]-'0'))
			i += 3
			continue
		}
		dst = append(dst, w[0])
	}
	return dst
}
