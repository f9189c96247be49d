package codec

import (
	"bytes"
	"encoding/binary"
)

// Split returns the numbers in a row of core_ticks, for a compression that predicts each of them:
// first the one that all rows begin with; then of a full row the varints, and of any other row, for
// each core, by how much its total ticks differ from T, and its busy ticks. It is false for a row
// that Append would have written differently.
func Split(row []byte) (list []int64, ok bool) {
	r := uvarints{rest: row}
	first := r.next()
	list = append(list, int64(first))
	for r.more() && !r.fault {
		v := r.next()
		if first == 0 {
			list = append(list, int64(v))
			continue
		}
		passed := int64(0)
		switch v & 3 {
		case 1:
			passed = 1
		case 2:
			passed = -1
		case 3:
			passed = int64(unzigzag(r.next()))
		}
		list = append(list, passed, int64(v>>2))
	}
	return list, bytes.Equal(Join(list), row)
}

// Join is the reverse of Split. Any list gives a row.
func Join(list []int64) []byte {
	row := binary.AppendUvarint(nil, uint64(list[0]))
	if list[0] == 0 {
		for _, v := range list[1:] {
			row = binary.AppendUvarint(row, uint64(v))
		}
		return row
	}
	for i := 1; i+1 < len(list); i += 2 {
		passed, busy := list[i], uint64(list[i+1])
		switch passed {
		case 0, 1:
			row = binary.AppendUvarint(row, busy<<2|uint64(passed))
		case -1:
			row = binary.AppendUvarint(row, busy<<2|2)
		default:
			row = binary.AppendUvarint(row, busy<<2|3)
			row = binary.AppendVarint(row, passed)
		}
	}
	return row
}
