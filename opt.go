package rt

import (
	"bytes"
	"encoding/json"
	"math"
)

// Opt is a value that may not have been read. Its zero value is "not read".
// It is stored in its struct, so that reading a counter allocates nothing.
// In JSON an absent value is null.
type Opt[T any] struct {
	value T
	ok    bool
}

// Some returns a value that was read.
func Some[T any](v T) Opt[T] { return Opt[T]{value: v, ok: true} }

// None returns a value that was not read.
func None[T any]() Opt[T] { return Opt[T]{} }

// Get returns the value and whether it was read.
func (o Opt[T]) Get() (T, bool) { return o.value, o.ok }

// Valid reports whether the value was read.
func (o Opt[T]) Valid() bool { return o.ok }

// Or returns the value, or def if it was not read.
func (o Opt[T]) Or(def T) T {
	if o.ok {
		return o.value
	}
	return def
}

// Map converts a value that was read.
func Map[T, U any](o Opt[T], convert func(T) U) Opt[U] {
	if !o.ok {
		return None[U]()
	}
	return Some(convert(o.value))
}

// Scaled multiplies a value that was read.
func Scaled[T int64 | uint64 | float64](v Opt[T], factor float64) Opt[float64] {
	return Map(v, func(n T) float64 { return float64(n) * factor })
}

// Both returns two values, and whether both were read.
func Both[A, B any](a Opt[A], b Opt[B]) (A, B, bool) { return a.value, b.value, a.ok && b.ok }

// Set stores a value that was read.
func (o *Opt[T]) Set(v T) { o.value, o.ok = v, true }

// Clear makes the value absent.
func (o *Opt[T]) Clear() { var zero T; o.value, o.ok = zero, false }

// IsZero lets `json:",omitzero"` omit an absent value.
func (o Opt[T]) IsZero() bool { return !o.ok }

// MarshalJSON writes the value, or null if it was not read. JSON has no infinity and no NaN: they are null too.
func (o Opt[T]) MarshalJSON() ([]byte, error) {
	f, _ := any(o.value).(float64) // 0 for another type
	if !o.ok || math.IsInf(f, 0) || math.IsNaN(f) {
		return []byte("null"), nil
	}
	return json.Marshal(o.value)
}

// UnmarshalJSON reads a value; null is an absent one.
func (o *Opt[T]) UnmarshalJSON(b []byte) error {
	if bytes.Equal(bytes.TrimSpace(b), []byte("null")) {
		o.Clear()
		return nil
	}
	if err := json.Unmarshal(b, &o.value); err != nil {
		return err
	}
	o.ok = true
	return nil
}
