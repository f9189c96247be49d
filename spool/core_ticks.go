package spool

import (
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/resource-tracker/rt"
)

// coreTable has the counters of the logical CPUs, a blob for each snapshot. A spool file has full rows. In a record the
// blobs are differences from the row before in the same frame, which compress better.
const coreTable = "core_ticks"

// core holds the counters of a logical CPU that the share of busy time needs.
type core struct {
	CPU         int
	Busy, Total uint64 // ticks
}

// maxCPU bounds the numbers of CPUs, as a check against damaged rows.
const maxCPU = 1 << 20

// errCores is the error for a row that cannot be decoded.
var errCores = errors.New("core_ticks does not decode")

// loadCores copies the per-core counters of a snapshot to dst.
func loadCores(dst []core, cpus []rt.CPUReading) []core {
	dst = dst[:0]
	for i := range cpus {
		t := &cpus[i].Times
		dst = append(dst, core{cpus[i].CPU, t.Busy(), t.Total()})
	}
	return dst
}

// storeCores copies the counters to dst: busy ticks as User, the others as Idle.
func storeCores(dst []rt.CPUReading, cores []core) []rt.CPUReading {
	dst = dst[:0]
	for _, c := range cores {
		dst = append(dst, rt.CPUReading{CPU: c.CPU, Times: rt.CPUTimes{User: c.Busy, Idle: c.Total - c.Busy}})
	}
	return dst
}

// appendCores encodes cur. With the cores of a previous row it usually takes less than 2 bytes per core, without them 7.
//
// A full row is the byte 0 and three varints for each core. The first is the number of cores that
// are left out before it, the second its busy ticks. The third is the zigzag difference of its
// total ticks from the total of the core before it. Any other row holds differences from the
// previous row. It begins with the varint 1+T, where T is the number of ticks that most cores
// advanced. For each core the varint 4*busy+k follows. k is 0, 1 or 2 if the core advanced T, T+1
// or T-1 ticks. k is 3 if it advanced T+d ticks; then the zigzag varint of d follows.
func appendCores(dst []byte, prev, cur []core) []byte {
	if !sameCores(prev, cur) {
		dst = append(dst, 0)
		next, total := 0, uint64(0)
		for _, c := range cur {
			dst = binary.AppendUvarint(dst, uint64(c.CPU-next))
			dst = binary.AppendUvarint(dst, c.Busy)
			dst = binary.AppendVarint(dst, int64(c.Total-total))
			next, total = c.CPU+1, c.Total
		}
		return dst
	}
	common := commonPassed(prev, cur)
	dst = binary.AppendUvarint(dst, common+1)
	for i, c := range cur {
		busy, more := c.Busy-prev[i].Busy, int64(c.Total-prev[i].Total-common)
		switch more {
		case 0, 1:
			dst = binary.AppendUvarint(dst, busy<<2|uint64(more))
		case -1:
			dst = binary.AppendUvarint(dst, busy<<2|2)
		default:
			dst = binary.AppendUvarint(dst, busy<<2|3)
			dst = binary.AppendVarint(dst, more)
		}
	}
	return dst
}

// sameCores reports whether cur can be encoded as differences from prev: the cores are the
// same, and no counter fell.
func sameCores(prev, cur []core) bool {
	if len(prev) != len(cur) {
		return false
	}
	for i, c := range cur {
		p := prev[i]
		if c.CPU != p.CPU || c.Busy < p.Busy || c.Busy-p.Busy >= 1<<62 || c.Total < p.Total {
			return false
		}
	}
	return true
}

// commonPassed returns the number of ticks by which most cores advanced, give or take 1: the
// mean of the cores that are near the majority.
func commonPassed(prev, cur []core) uint64 {
	var vote uint64
	votes := 0
	for i, c := range cur {
		switch passed := c.Total - prev[i].Total; {
		case votes == 0:
			vote, votes = passed, 1
		case passed == vote:
			votes++
		default:
			votes--
		}
	}
	const near = 2
	sum, n := 0, 0
	for i, c := range cur {
		if d := int64(c.Total - prev[i].Total - vote); d >= -near && d <= near {
			sum += int(d)
			n++
		}
	}
	if n == 0 {
		return min(vote, 1<<62)
	}
	mean := int64(math.Round(float64(sum) / float64(n)))
	return min(vote+uint64(mean), 1<<62)
}

// decodeCores applies a row of core_ticks to the cores of the previous row.
func decodeCores(cores []core, row []byte) ([]core, error) {
	r := uvarints{rest: row}
	first := r.next()
	if first == 0 {
		cores = cores[:0]
		next, total := uint64(0), uint64(0)
		for r.more() {
			cpu := next + r.next()
			busy := r.next()
			total += unzigzag(r.next())
			if cpu >= maxCPU || cpu < next {
				return cores, errCores
			}
			cores = append(cores, core{int(cpu), busy, total})
			next = cpu + 1
		}
		return cores, r.end()
	}
	for i := range cores {
		busy, passed := r.next(), first-1
		switch busy & 3 {
		case 1:
			passed++
		case 2:
			passed--
		case 3:
			passed += unzigzag(r.next())
		}
		cores[i].Busy += busy >> 2
		cores[i].Total += passed
	}
	return cores, r.end()
}

func unzigzag(u uint64) uint64 { return u>>1 ^ -(u & 1) }

// uvarints reads varints. After the first error it returns zeros.
type uvarints struct {
	rest  []byte
	fault bool
}

func (r *uvarints) more() bool { return len(r.rest) > 0 }

func (r *uvarints) next() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.rest, r.fault = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *uvarints) end() error {
	if r.fault || len(r.rest) > 0 {
		return errCores
	}
	return nil
}

// coreBlobs converts the blobs of core_ticks, row after row.
type coreBlobs struct{ before, now []core }

// pack makes a blob of a record from one of a spool file.
func (b *coreBlobs) pack(blob driver.Value) (driver.Value, error) {
	content, ok := blob.([]byte)
	if !ok {
		return nil, errCores
	}
	var err error
	b.now, err = decodeCores(b.now[:0], content)
	packed := appendCores(nil, b.before, b.now)
	b.before, b.now = b.now, b.before
	return packed, err
}

// unpack is the reverse of pack.
func (b *coreBlobs) unpack(blob driver.Value) (driver.Value, error) {
	content, ok := blob.([]byte)
	if !ok {
		return nil, errCores
	}
	var err error
	b.now, err = decodeCores(b.now, content)
	return appendCores(nil, nil, b.now), err
}

// unpackCores converts the blobs in the rows of a frame, if it is of core_ticks.
func (t *recordTable) unpackCores(rows [][]driver.Value) (err error) {
	at := slices.Index(t.columns, "cores")
	if t.name != coreTable || at < 0 {
		return nil
	}
	var blobs coreBlobs
	for _, row := range rows {
		row[at], err = blobs.unpack(row[at])
		if err != nil {
			return err
		}
	}
	return nil
}
