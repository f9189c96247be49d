package spool

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/resource-tracker/rt"
)

// core holds the counters of a logical CPU that the share of busy time needs.
type core struct {
	cpu         int
	busy, total uint64 // ticks
}

// maxCPU bounds the numbers of CPUs, as a check against damaged rows.
const maxCPU = 1 << 20

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
		dst = append(dst, rt.CPUReading{CPU: c.cpu, Times: rt.CPUTimes{User: c.busy, Idle: c.total - c.busy}})
	}
	return dst
}

// appendCores encodes a row of core_ticks, usually in less than 2 bytes per core.
//
// A full row is the byte 0 and, for each core, three varints: the number of cores that are
// left out before it, its busy ticks and its total ticks. Any other row holds differences
// from the previous row: the varint 1+T, where T is the number of ticks that most cores
// advanced, and for each core the varint of 4 times its busy ticks plus 0, 1 or 2 if it
// advanced T, T+1 or T-1 ticks, or plus 3 if it advanced T+d ticks; then the zigzag varint
// of d follows.
func appendCores(dst []byte, prev, cur []core) []byte {
	if !sameCores(prev, cur) {
		dst = append(dst, 0)
		next := 0
		for _, c := range cur {
			dst = binary.AppendUvarint(dst, uint64(c.cpu-next))
			dst = binary.AppendUvarint(dst, c.busy)
			dst = binary.AppendUvarint(dst, c.total)
			next = c.cpu + 1
		}
		return dst
	}
	common := commonPassed(prev, cur)
	dst = binary.AppendUvarint(dst, common+1)
	for i, c := range cur {
		busy, more := c.busy-prev[i].busy, int64(c.total-prev[i].total-common)
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

// sameCores says whether cur can be encoded as differences from prev: the cores are the
// same, and no counter fell.
func sameCores(prev, cur []core) bool {
	if len(prev) != len(cur) {
		return false
	}
	for i, c := range cur {
		p := prev[i]
		if c.cpu != p.cpu || c.busy < p.busy || c.busy-p.busy >= 1<<62 || c.total < p.total {
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
		switch passed := c.total - prev[i].total; {
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
		if d := int64(c.total - prev[i].total - vote); d >= -near && d <= near {
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
		next := uint64(0)
		for r.more() {
			cpu := next + r.next()
			busy, total := r.next(), r.next()
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
		cores[i].busy += busy >> 2
		cores[i].total += passed
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
