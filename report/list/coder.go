package list

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/resource-tracker/rt"
)

// coder encodes values to out, or decodes them from in. Each method takes a pointer, and reads or sets what it points to.
type coder struct {
	decoding bool
	in, out  []byte
	err      error
}

var errDamaged = errors.New("the index ends within a value")

// fail ends the decoding: all values that follow are zero.
func (c *coder) fail() { c.in, c.err = nil, errDamaged }

func (c *coder) uint(p *uint64) {
	if !c.decoding {
		c.out = binary.AppendUvarint(c.out, *p)
		return
	}
	v, n := binary.Uvarint(c.in)
	if n <= 0 {
		v, n = 0, 0
		c.fail()
	}
	*p, c.in = v, c.in[n:]
}

func (c *coder) int(p *int64) {
	v := uint64(*p)
	c.uint(&v)
	*p = int64(v)
}

func (c *coder) float(p *float64) {
	v := math.Float64bits(*p)
	c.uint(&v)
	*p = math.Float64frombits(v)
}

func (c *coder) bool(p *bool) {
	v := uint64(0)
	if *p {
		v = 1
	}
	c.uint(&v)
	*p = v != 0
}

func (c *coder) text(p *string) {
	n := c.count(len(*p))
	if !c.decoding {
		c.out = append(c.out, *p...)
		return
	}
	*p, c.in = string(c.in[:n]), c.in[n:]
}

// count takes the length of a list. Each of its elements takes a byte or more.
func (c *coder) count(length int) int {
	n := uint64(length)
	c.uint(&n)
	if c.decoding && n > uint64(len(c.in)) {
		n = 0
		c.fail()
	}
	return int(n)
}

// time takes a time after 1970 in nanoseconds, or the zero time.
func (c *coder) time(p *time.Time) {
	v := uint64(0)
	if !p.IsZero() {
		v = uint64(p.UnixNano())
	}
	c.uint(&v)
	if c.decoding && v != 0 {
		*p = time.Unix(0, int64(v)).UTC()
	}
}

// optional takes a value that may be absent.
func optional[T any](c *coder, p *rt.Opt[T], value func(*T)) {
	v, ok := p.Get()
	c.bool(&ok)
	if ok {
		value(&v)
		p.Set(v)
	}
}

// value takes a value of any type that figures have: of a struct all fields, in their order.
func (c *coder) value(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		c.time(p)
		return
	case *rt.Opt[uint64]:
		optional(c, p, c.uint)
		return
	case *rt.Opt[int64]:
		optional(c, p, c.int)
		return
	case *rt.Opt[float64]:
		optional(c, p, c.float)
		return
	case *rt.Opt[bool]:
		optional(c, p, c.bool)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			c.value(v.Field(i))
		}
	case reflect.Slice:
		n := c.count(v.Len())
		if c.decoding && n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			c.value(v.Index(i))
		}
	default:
		c.scalar(v)
	}
}

func (c *coder) scalar(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		text := v.String()
		c.text(&text)
		v.SetString(text)
	case reflect.Bool:
		is := v.Bool()
		c.bool(&is)
		v.SetBool(is)
	case reflect.Uint64:
		n := v.Uint()
		c.uint(&n)
		v.SetUint(n)
	case reflect.Int, reflect.Int64:
		n := v.Int()
		c.int(&n)
		v.SetInt(n)
	default:
		panic(fmt.Sprintf("the index of jobs has no form for a %s", v.Type()))
	}
}
