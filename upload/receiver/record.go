package receiver

import (
	"encoding/binary"
	"hash/crc32"
)

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
