package spool

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
)

// column connects a column of a table to the field of a struct. Empty texts, absent values and
// zero times are NULL.
type column struct {
	name  string
	field any // a pointer
}

// inKiB is a figure in bytes with a column in KiB.
type inKiB struct{ *rt.Opt[uint64] }

// columnsOf lists the columns of a table that holds structs, from a pointer to one. They have
// the names in JSON; a time is in microseconds, in a column with the suffix _us.
func columnsOf(of any) []column { return appendFieldColumns(nil, reflect.ValueOf(of).Elem()) }

func appendFieldColumns(list []column, of reflect.Value) []column {
	for field, v := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		at := v.Addr().Interface()
		switch at.(type) {
		case *rt.Metadata, *rt.Identity, *rt.Allocation, *rt.Ending:
			list = appendFieldColumns(list, v)
			continue
		case *time.Time:
			name = strings.TrimSuffix(name, "_at") + "_us"
		case *rt.State, *rt.Outcome, *rt.Scope:
			at = v.Addr().Convert(reflect.TypeFor[*string]()).Interface()
		}
		if name == "alloc_mem" {
			name = "alloc_mem_bytes"
		}
		list = append(list, column{name, at})
	}
	return list
}

// names lists the columns' names as SQL.
func names(columns []column) string { return sqlNames(columnNamesOf(columns)) }

// sqlNames lists names of columns as SQL.
func sqlNames(columns []string) string {
	list := slices.Clone(columns)
	for i, name := range list {
		if name == "group" { // a keyword of SQL. Quoted, a column that does not exist would be a text.
			list[i] = `"group"`
		}
	}
	return strings.Join(list, ", ")
}

// values encodes the fields.
func values(columns []column) []driver.Value {
	list := make([]driver.Value, len(columns))
	for i, c := range columns {
		list[i] = encode(c.field)
	}
	return list
}

func encode(field any) driver.Value {
	switch p := field.(type) {
	case *string:
		return textValue(*p)
	case *rt.Opt[uint64]:
		return optValue(*p)
	case *rt.Opt[int64]:
		return optValue(*p)
	case *rt.Opt[float64]:
		return optValue(*p)
	case *rt.Opt[bool]:
		return optValue(*p)
	case inKiB:
		return kibOf(p)
	case *bool:
		if !*p {
			return nil
		}
		return int64(1)
	case micros:
		return *p.int64 / 1000
	case microsOrNone:
		if *p.int64 == 0 {
			return nil
		}
		return *p.int64 / 1000
	case tick:
		t, ok := p.of.Get()
		if !ok {
			return nil
		}
		return int64(*p.at(&t))
	case *uint8:
		return int64(*p)
	case *uint64:
		return int64(*p)
	case *int64:
		return *p
	case *int:
		return int64(*p)
	case *float64:
		return *p
	case *time.Time:
		if p.IsZero() {
			return nil
		}
		return p.UnixMicro()
	case *[]string:
		return jsonValue(len(*p), *p)
	case *map[string]string:
		return jsonValue(len(*p), *p)
	}
	return nil
}

// kibOf converts a figure to KiB. One that is not a multiple of 1 KiB is a fraction, which a float64
// holds exactly. rt.Unlimited is -1 in any unit.
func kibOf(p inKiB) driver.Value {
	n, ok := p.Get()
	switch {
	case !ok:
		return nil
	case n == rt.Unlimited:
		return int64(-1)
	case n%kib == 0:
		return int64(n / kib)
	}
	return float64(n) / kib
}

// textValue returns NULL for an empty text, which means not reported.
func textValue(s string) driver.Value {
	if s == "" {
		return nil
	}
	return s
}

// optValue returns NULL for a value that was not read.
func optValue[T int64 | uint64 | float64 | bool](o rt.Opt[T]) driver.Value {
	v, ok := o.Get()
	if !ok {
		return nil
	}
	if n, ok := any(v).(uint64); ok {
		return int64(n)
	}
	return v
}

func jsonValue(n int, v any) driver.Value {
	if n == 0 {
		return nil
	}
	text, _ := json.Marshal(v) // strings always marshal
	return string(text)
}

// scan decodes the first columns of a row into the fields.
func scan(row []driver.Value, columns []column) error {
	for i, c := range columns {
		if !decode(row[i], c.field) {
			return fmt.Errorf("column %s holds a %T, which is the wrong type", c.name, row[i])
		}
	}
	return nil
}

// decode is the reverse of encode. NULL does not change the field.
func decode(v driver.Value, field any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case int64:
		return decodeInt(v, field)
	case float64:
		switch p := field.(type) {
		case *rt.Opt[float64]:
			p.Set(v)
			return true
		case *float64:
			*p = v
			return true
		case inKiB:
			p.Set(uint64(int64(math.Round(v * kib))))
			return true
		}
	case string:
		switch p := field.(type) {
		case *string:
			*p = v
			return true
		case *[]string, *map[string]string:
			return json.Unmarshal([]byte(v), p) == nil
		}
	}
	return false
}

func decodeInt(v int64, field any) bool {
	switch p := field.(type) {
	case *rt.Opt[uint64]:
		p.Set(uint64(v))
	case *rt.Opt[int64]:
		p.Set(v)
	case *rt.Opt[float64]:
		p.Set(float64(v))
	case *rt.Opt[bool]:
		p.Set(v != 0)
	case inKiB:
		if v == -1 {
			p.Set(rt.Unlimited)
		} else {
			p.Set(uint64(v * kib))
		}
	case micros:
		*p.int64 = v * 1000
	case microsOrNone:
		*p.int64 = v * 1000
	case tick:
		t := p.of.Or(rt.CPUTimes{})
		*p.at(&t) = uint64(v)
		p.of.Set(t)
	case *uint8:
		if v < 0 || v > math.MaxUint8 {
			return false
		}
		*p = uint8(v)
	case *uint64:
		*p = uint64(v)
	case *int64:
		*p = v
	case *int:
		*p = int(v)
	case *float64:
		*p = float64(v)
	case *bool:
		*p = v != 0
	case *time.Time:
		*p = time.UnixMicro(v).UTC()
	default:
		return false
	}
	return true
}
