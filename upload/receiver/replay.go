package receiver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// damaged is the end of the name of a segment that is kept for a person to look at.
const damaged = ".damaged"

// replay puts the newest content of each file into its place, and ends what segments
// there are. A damaged one is never removed.
func (j *journal) replay() error {
	segments, err := j.segments()
	if err != nil || len(segments) == 0 {
		return err
	}
	newest := map[string][]byte{} // nil: it is elsewhere
	bad := map[string]int{}       // where a segment is damaged
	for i, path := range segments {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		at, torn := readSegment(content, newest)
		last := i == len(segments)-1 // a crash may have cut its end
		isCut := torn && last
		if at >= 0 && !isCut {
			bad[path] = at
		}
	}
	if err := j.restore(newest); err != nil {
		return err
	}
	for _, path := range segments {
		if at, ok := bad[path]; ok {
			err = errors.Join(err, os.Rename(path, path+damaged))
			j.warn(fmt.Errorf("the receiver's journal %s is damaged at byte %d: all other records of it are in their places, and it is kept as %s; "+
				"look whether the runs of its time are whole, and remove it then", path, at, filepath.Base(path)+damaged))
			continue
		}
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, syncDir(j.dir))
}

// segments lists the paths of segments, the oldest first, and sees to it that the next
// one has a new name.
func (j *journal) segments() (paths []string, err error) {
	entries, err := os.ReadDir(j.dir) // sorted
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, kept := strings.CutSuffix(e.Name(), damaged)
		number, isLog := strings.CutSuffix(name, ".log")
		n, err := strconv.Atoi(number)
		if err != nil || !isLog {
			return nil, fmt.Errorf("%s is no segment of a journal: move it away", e.Name())
		}
		j.number = max(j.number, n)
		if !kept {
			paths = append(paths, filepath.Join(j.dir, e.Name()))
		}
	}
	return paths, nil
}

// readSegment puts the records of a segment into newest. at is where the first thing
// stands that is neither a record nor the zeros at the end, -1 for none; torn says that
// no record stands behind it.
func readSegment(b []byte, newest map[string][]byte) (at int, torn bool) {
	at = -1
	for rest := b; len(rest) > 0; {
		name, content, here, after, ok := nextRecord(rest)
		if ok {
			newest[name] = nil
			if here {
				newest[name] = bytes.Clone(content)
			}
			rest = after
			continue
		}
		skip, found := nextStart(rest)
		follows := found || len(bytes.Trim(rest, "\x00")) > 0
		if at < 0 && follows {
			at = len(b) - len(rest)
		}
		if !found {
			return at, at == len(b)-len(rest)
		}
		rest = rest[skip:]
	}
	return at, false
}

// nextStart says where the next record begins behind something that is none.
func nextStart(b []byte) (at int, found bool) {
	for at := 1; at+recordHead < len(b); at++ {
		if _, _, _, _, ok := nextRecord(b[at:]); ok {
			return at, true
		}
	}
	return 0, false
}

// restore puts files into their places, durably.
func (j *journal) restore(files map[string][]byte) error {
	put := place
	if j.unused {
		put = write
	}
	for name, content := range files {
		if content == nil {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("it names %q, which is not in the receiver's directory", name)
		}
		if err := put(j.root, name, content); err != nil {
			return err
		}
	}
	if err := unix.Syncfs(int(j.fs.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	return nil
}

// kernelRelease is what uname -r prints; empty where that is not known.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// syncfsTells says whether a kernel's syncfs returns that files could not be written:
// Linux does from 5.8 on, syncfs(2).
func syncfsTells(release string) bool {
	var major, minor int
	if n, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil || n != 2 {
		return false
	}
	isLate5 := major == 5 && minor >= 8
	return major > 5 || isLate5
}
