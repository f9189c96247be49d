package receiver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A record of the journal is the whole content of one file, or says that the file of
// this name has been made durable without the journal:
//
//	CRC-32C of all that follows    4 bytes, little-endian as the others
//	length of the name             4 bytes
//	length of the content          4 bytes; all ones where it is not the journal's
//	name, content
const recordHead = 12

const elsewhere = 1<<32 - 1

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

// nextRecord reads the first record of b. It is not ok at the end, and where a crash
// has cut it: nobody was told that it is there.
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
	if names == 0 || end > uint64(len(b)) || crc32.Checksum(b[4:end], castagnoli) != binary.LittleEndian.Uint32(b) {
		return "", nil, false, nil, false
	}
	return string(b[recordHead : recordHead+names]), b[recordHead+names : end], here, b[end:], true
}

// replay puts the newest content of each file into its place, and ends what segments
// there are.
func (j *journal) replay() error {
	entries, err := os.ReadDir(j.dir) // sorted
	if err != nil {
		return err
	}
	newest := map[string][]byte{} // nil: it is elsewhere
	for _, e := range entries {
		number, isLog := strings.CutSuffix(e.Name(), ".log")
		n, err := strconv.Atoi(number)
		if err != nil || !isLog {
			return fmt.Errorf("%s is no segment of a journal: move it away", e.Name())
		}
		j.number = max(j.number, n)
		rest, err := os.ReadFile(filepath.Join(j.dir, e.Name()))
		if err != nil {
			return err
		}
		for name, content, here, after, ok := nextRecord(rest); ok; name, content, here, after, ok = nextRecord(after) {
			if newest[name] = nil; here {
				newest[name] = append([]byte{}, content...)
			}
		}
	}
	if len(entries) == 0 {
		return nil
	}
	for name, content := range newest {
		if content == nil {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("it names %q, which is not in the receiver's directory", name)
		}
		if err := place(j.root, name, content); err != nil {
			return err
		}
	}
	if err := unix.Syncfs(int(j.fs.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	for _, e := range entries {
		err = errors.Join(err, os.Remove(filepath.Join(j.dir, e.Name())))
	}
	return errors.Join(err, syncDir(j.dir))
}
