package receiver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/durable"
)

// damaged is the suffix of a segment that is kept for inspection.
const damaged = ".damaged"

// replay writes the newest content of each file to its place, and removes the segments. A
// damaged segment is renamed and kept. If the disk is full, all segments stay.
func (j *journal) replay() error {
	j.tried = time.Now()
	segments, err := j.segments()
	if err != nil || len(segments) == 0 {
		return err
	}
	defer debug.FreeOSMemory()    // the segments are read as a whole
	newest := map[string][]byte{} // nil: not in the journal
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
	if err := j.restore(newest); isFull(err) {
		j.held = map[string]bool{}
		for name := range newest {
			j.held[name] = true
		}
		j.fault = &problem{
			status: http.StatusInsufficientStorage, code: "InsufficientStorage", retry: retryFull, undone: true,
			detail: "the receiver's disk is full; it accepts data when there is room",
		}
		return err
	} else if err != nil {
		return err
	}
	j.held, j.fault = nil, nil
	for _, path := range segments {
		if at, ok := bad[path]; ok {
			err = errors.Join(err, os.Rename(path, path+damaged))
			j.warn(fmt.Errorf("the receiver's journal %s is damaged at byte %d: all its other records are in their places, and it is kept as %s; "+
				"check that the runs of its time are complete, and then remove it", path, at, filepath.Base(path)+damaged))
			continue
		}
		err = errors.Join(err, os.Remove(path))
	}
	return errors.Join(err, durable.SyncDir(j.dir))
}

// segments lists the paths of segments, the oldest first, and sets the number of the next
// one.
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
			return nil, fmt.Errorf("%s is not a segment of a journal: move it away", e.Name())
		}
		j.number = max(j.number, n)
		if !kept {
			paths = append(paths, filepath.Join(j.dir, e.Name()))
		}
	}
	return paths, nil
}

// readSegment adds the records of a segment to newest. at is the position of the first damage:
// bytes that are neither a record nor zeros at the end; -1 for none. torn is true if no record
// follows the damage.
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

// nextStart returns the position of the next record after damaged bytes.
func nextStart(b []byte) (at int, found bool) {
	for at := 1; at+recordHead < len(b); at++ {
		if _, _, _, _, ok := nextRecord(b[at:]); ok {
			return at, true
		}
	}
	return 0, false
}

// restore writes files to their places, durably. It skips a file that already has its content.
// After a kill all files have theirs, so that a full disk does not matter.
func (j *journal) restore(files map[string][]byte) error {
	put := place
	if j.unused {
		put = write
	}
	var full error
	for name, content := range files {
		if content == nil {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("it has the name %q, which is not in the receiver's directory", name)
		}
		if there, err := os.ReadFile(filepath.Join(j.root, name)); err == nil && !j.unused && bytes.Equal(there, content) {
			continue
		}
		if err := put(j.root, name, content); isFull(err) {
			full = err // the others may have room
		} else if err != nil {
			return err
		}
	}
	if full != nil {
		return full
	}
	if err := unix.Syncfs(int(j.fs.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	return nil
}

// kernelRelease is what uname -r prints; empty if that is not known.
func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

// syncfsReports reports whether a kernel's syncfs returns an error for files that could not be
// written: Linux does from 5.8 on, syncfs(2).
func syncfsReports(release string) bool {
	var major, minor int
	if n, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil || n != 2 {
		return false
	}
	isLate5 := major == 5 && minor >= 8
	return major > 5 || isLate5
}

// A record of the journal is the whole content of one file, or reports that the file of this
// name has been made durable without the journal:
//
//	CRC-32C of all that follows    4 bytes, little-endian like the others
//	length of the name             4 bytes
//	length of the content          4 bytes; all ones if it is not in the journal
//	name, content
const recordHead = 12

const elsewhere = 1<<32 - 1

// longestName is larger than any name, in bytes.
const longestName = 4096

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends the record of a file.
func appendRecord(dst []byte, name string, content []byte) []byte {
	return appendHead(dst, name, uint32(len(content)), content)
}

// appendElsewhere appends the record of a file that is durable already.
func appendElsewhere(dst []byte, name string) []byte { return appendHead(dst, name, elsewhere, nil) }

func appendHead(dst []byte, name string, length uint32, content []byte) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(name)))
	dst = binary.LittleEndian.AppendUint32(dst, length)
	dst = append(append(dst, name...), content...)
	binary.LittleEndian.PutUint32(dst[start:], crc32.Checksum(dst[start+4:], castagnoli))
	return dst
}

// nextRecord parses the first record of b. It is not ok at the end, and if a crash has cut
// the record, which was then never confirmed.
func nextRecord(b []byte) (name string, content []byte, here bool, rest []byte, ok bool) {
	if len(b) < recordHead {
		return "", nil, false, nil, false
	}
	names, length := uint64(binary.LittleEndian.Uint32(b[4:])), uint64(binary.LittleEndian.Uint32(b[8:]))
	here = length != elsewhere
	if !here {
		length = 0
	}
	end := recordHead + names + length
	if names == 0 || names > longestName || length > smallFile || end > uint64(len(b)) || crc32.Checksum(b[4:end], castagnoli) != binary.LittleEndian.Uint32(b) {
		return "", nil, false, nil, false
	}
	return string(b[recordHead : recordHead+names]), b[recordHead+names : end], here, b[end:], true
}
