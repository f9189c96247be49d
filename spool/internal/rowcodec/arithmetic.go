package rowcodec

// bit is the adaptive probability of a binary decision.
type bit struct {
	zero uint16 // probability of 0, in 65536ths; 0 before the first decision stands for one half
	n    uint8  // number of decisions, up to maxDecisions
}

// maxDecisions bounds the memory of a probability: later decisions have this weight.
const maxDecisions = 24

// minZero and maxZero keep a probability away from certainty.
const minZero, maxZero = 48, 1<<16 - 48

func (b *bit) probability() uint32 {
	if b.n == 0 {
		return 1 << 15
	}
	return uint32(b.zero)
}

// learn moves the probability towards a decision, by less with each decision.
func (b *bit) learn(one bool) {
	p := int32(b.probability())
	target := int32(1 << 16)
	if one {
		target = 0
	}
	p += (target - p) * 2 / (2*int32(b.n) + 3)
	b.zero = uint16(min(max(p, minZero), maxZero))
	b.n = min(b.n+1, maxDecisions)
}

// The state of the arithmetic coder is an interval of 32 bits. Its highest byte is written when
// the interval is smaller than 1<<24.
const smallest = 1 << 24

// encoder writes binary decisions in as many bits as their probabilities need.
type encoder struct {
	out     []byte
	low     uint64 // start of the interval; bit 32 is a carry
	size    uint32
	held    byte // last byte, to which a carry can be added
	carries int  // bytes 0xff after held
	started bool // held is a byte of the output
}

func newEncoder(dst []byte) *encoder { return &encoder{out: dst, size: 1<<32 - 1} }

func (e *encoder) bit(b *bit, one bool) {
	bound := e.size >> 16 * b.probability()
	if one {
		e.low += uint64(bound)
		e.size -= bound
	} else {
		e.size = bound
	}
	b.learn(one)
	e.normalize()
}

// raw writes the lowest n bits of v, which have no model.
func (e *encoder) raw(v uint64, n int) {
	for n--; n >= 0; n-- {
		e.size >>= 1
		if v>>n&1 == 1 {
			e.low += uint64(e.size)
		}
		e.normalize()
	}
}

func (e *encoder) normalize() {
	for e.size < smallest {
		e.size <<= 8
		e.shift()
	}
}

// shift moves the highest byte of low to the output. A byte 0xff waits, because a carry would
// change it and the byte before it.
func (e *encoder) shift() {
	top := byte(e.low >> 24)
	carry := byte(e.low >> 32)
	if top == 0xff && carry == 0 {
		e.carries++
	} else {
		if e.started {
			e.out = append(e.out, e.held+carry)
		}
		for ; e.carries > 0; e.carries-- {
			e.out = append(e.out, 0xff+carry)
		}
		e.held, e.started = top, true
	}
	e.low = e.low << 8 & (1<<32 - 1)
}

// end writes what is left and returns the output.
func (e *encoder) end() []byte {
	for range 5 {
		e.shift()
	}
	return e.out
}

// decoder is the reverse of encoder.
type decoder struct {
	in   []byte
	at   int // may be beyond the end of damaged input
	code uint32
	size uint32
}

func newDecoder(in []byte) *decoder {
	d := &decoder{in: in, size: 1<<32 - 1}
	for range 4 {
		d.next()
	}
	return d
}

func (d *decoder) next() {
	d.code <<= 8
	if d.at < len(d.in) {
		d.code |= uint32(d.in[d.at])
	}
	d.at++
}

// isOver reports whether more was read than the encoder wrote.
func (d *decoder) isOver() bool { return d.at > len(d.in) }

func (d *decoder) bit(b *bit) (one bool) {
	bound := d.size >> 16 * b.probability()
	if d.code < bound {
		d.size = bound
	} else {
		d.code -= bound
		d.size -= bound
		one = true
	}
	b.learn(one)
	d.normalize()
	return one
}

func (d *decoder) raw(n int) (v uint64) {
	for ; n > 0; n-- {
		d.size >>= 1
		v <<= 1
		if d.code >= d.size {
			d.code -= d.size
			v |= 1
		}
		d.normalize()
	}
	return v
}

func (d *decoder) normalize() {
	for d.size < smallest {
		d.size <<= 8
		d.next()
	}
}
