package lake

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"

	"github.com/resource-tracker/rt"
)

// column is a column of a table or a field of a group. It is made for one value in memory, and adds what that value is at
// the moment. What is absent in the JSON of the value is null.
type column struct {
	name, doc string
	isCounter bool // or a time: it grows evenly
	kind      func(*numbers) iceberg.Type
	bind      func(arrow.DataType) // to a column of a table, before the first add
	add       func(array.Builder)
}

// numbers gives each field of a new schema an id.
type numbers int

func (n *numbers) next() int { *n++; return int(*n) }

// columns are the columns of a table, or the fields of a group.
type columns struct {
	list  []column
	order []int // the index in list of each column of the table; -1: this version does not know it
}

// fields are the columns in a new schema. Each may be null.
func (c *columns) fields(n *numbers) (fields []iceberg.NestedField) {
	for _, own := range c.list {
		fields = append(fields, iceberg.NestedField{ID: n.next(), Name: own.name, Doc: own.doc, Type: own.kind(n)})
	}
	return fields
}

// schema is the schema of a new table.
func (c *columns) schema() *iceberg.Schema { return iceberg.NewSchema(0, c.fields(new(numbers))...) }

// bind finds the columns of a table, which another version may have made.
func (c *columns) bind(fields []arrow.Field) {
	c.order = nil
	for _, f := range fields {
		i := slices.IndexFunc(c.list, func(own column) bool { return own.name == f.Name })
		c.order = append(c.order, i)
		if i >= 0 {
			c.list[i].bind(f.Type)
		}
	}
}

// add adds the values to the columns of a table.
func (c *columns) add(to func(int) array.Builder) {
	for i, own := range c.order {
		if own < 0 {
			to(i).AppendNull()
			continue
		}
		c.list[own].add(to(i))
	}
}

// errType means that a type of Go cannot be stored in a column.
var errType = errors.New("the lake has no column for this type")

// columnOf returns the column for a value of Go.
func columnOf(name, doc string, v reflect.Value) (column, error) {
	c := column{name: name, doc: describe(name, doc), bind: func(arrow.DataType) {}}
	if leaf := leafOf(v.Type()); leaf != nil {
		c.kind, c.add = func(*numbers) iceberg.Type { return leaf }, func(b array.Builder) { addLeaf(b, v) }
		return c, nil
	}
	switch v.Kind() {
	case reflect.Struct:
		return c, c.setGroup(v)
	case reflect.Pointer, reflect.Slice, reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem() // a copy of what is added
		of, err := columnOf(name, "", element)
		c.setElements(v, element, of)
		return c, err
	}
	return c, fmt.Errorf("%w: %s: %s", errType, name, v.Type())
}

// leafOf returns the type of a column without fields, or nil.
func leafOf(t reflect.Type) iceberg.Type {
	if t == reflect.TypeFor[time.Time]() {
		return iceberg.PrimitiveTypes.TimestampTz
	}
	if strings.HasPrefix(t.Name(), "Opt[") {
		t = t.Field(0).Type
	}
	switch t.Kind() {
	case reflect.String:
		return iceberg.PrimitiveTypes.String
	case reflect.Bool:
		return iceberg.PrimitiveTypes.Bool
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint, reflect.Uint64, reflect.Uint32:
		return iceberg.PrimitiveTypes.Int64
	case reflect.Float64:
		return iceberg.PrimitiveTypes.Float64
	}
	return nil
}

// setGroup makes a group of the fields of a struct: the figures of a reading, or as encoding/json has them.
func (c *column) setGroup(v reflect.Value) (err error) {
	group := &columns{}
	if reading, is := v.Addr().Interface().(interface{ Fields() []rt.Field }); is {
		for _, f := range reading.Fields() {
			f.Unit = unit(f.Unit)
			field, failed := columnOf(f.Column(), "", reflect.ValueOf(f.At).Elem())
			err = errors.Join(err, failed)
			group.list = append(group.list, field)
		}
	} else {
		err = group.appendFields(v)
	}
	c.kind = func(n *numbers) iceberg.Type { return &iceberg.StructType{FieldList: group.fields(n)} }
	c.bind = func(t arrow.DataType) { group.bind(t.(*arrow.StructType).Fields()) }
	c.add = func(b array.Builder) {
		to := b.(*array.StructBuilder)
		to.Append(true)
		group.add(to.FieldBuilder)
	}
	return err
}

// appendFields appends a column for each field of a struct that encoding/json has.
func (c *columns) appendFields(v reflect.Value) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		isEmbedded := f.Anonymous && name == ""
		switch {
		case isEmbedded:
			if err := c.appendFields(v.Field(i)); err != nil {
				return err
			}
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		field, err := columnOf(name, f.Tag.Get("doc"), v.Field(i))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(c.list, func(other column) bool { return other.name == name }) {
			return fmt.Errorf("%w: there are two columns %s", errType, name)
		}
		c.list = append(c.list, field)
	}
	return nil
}

// setElements makes a list of a slice, a map of a map, and the column of what a pointer points to. Without elements it is
// null.
func (c *column) setElements(v, element reflect.Value, of column) {
	c.kind, c.bind = of.kind, of.bind
	switch v.Kind() {
	case reflect.Slice:
		c.kind = func(n *numbers) iceberg.Type {
			return &iceberg.ListType{ElementID: n.next(), Element: of.kind(n)}
		}
		c.bind = func(t arrow.DataType) { of.bind(t.(*arrow.ListType).Elem()) }
	case reflect.Map:
		c.kind = func(n *numbers) iceberg.Type {
			return &iceberg.MapType{KeyID: n.next(), KeyType: iceberg.PrimitiveTypes.String, ValueID: n.next(), ValueType: of.kind(n)}
		}
		c.bind = func(t arrow.DataType) { of.bind(t.(*arrow.MapType).ItemType()) }
	}
	c.add = func(b array.Builder) {
		isEmpty := v.Kind() != reflect.Pointer && v.Len() == 0
		if v.IsNil() || isEmpty {
			b.AppendNull()
			return
		}
		switch to := b.(type) {
		case *array.MapBuilder:
			to.Append(true)
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			for _, key := range keys {
				to.KeyBuilder().(*array.StringBuilder).Append(valid(key.String()))
				element.Set(v.MapIndex(key))
				of.add(to.ItemBuilder())
			}
		case *array.ListBuilder:
			to.Append(true)
			for i := range v.Len() {
				element.Set(v.Index(i))
				of.add(to.ValueBuilder())
			}
		default:
			element.Set(v.Elem())
			of.add(b)
		}
	}
}

// units are the ends of names that are units.
var units = map[string]string{
	"secs": "seconds", "us": "microseconds", "bytes": "bytes", "pct": "percent", "watts": "watts", "joules": "joules",
	"celsius": "degrees Celsius", "mhz": "MHz", "khz": "kHz", "ticks": "ticks of the kernel",
}

// describe is the documentation of a column: what it is, and the unit that its name ends with.
func describe(name, doc string) string {
	unit := units[name[strings.LastIndexByte(name, '_')+1:]]
	if unit != "" {
		unit = "in " + unit
	}
	return strings.Trim(doc+", "+unit, ", ")
}

func valid(text string) string { return strings.ToValidUTF8(text, "?") }

// signed is the value of an unsigned figure: no engine has unsigned integers. A value that does not fit, such as
// a limit that is none, is the largest.
func signed(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

// addLeaf adds a value without fields. A text that is empty and a time that is zero are not known.
func addLeaf(b array.Builder, v reflect.Value) {
	isRead := true
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		v, isRead = reflect.ValueOf(at.UnixMicro()), !at.IsZero()
	case interface{ Valid() bool }: // an rt.Opt
		v, isRead = v.Field(0), at.Valid()
	}
	if isRead && v.Kind() == reflect.String {
		isRead = v.Len() > 0
	}
	if !isRead {
		b.AppendNull()
		return
	}
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append(valid(v.String()))
	case *array.Int64Builder:
		if v.CanUint() {
			b.Append(signed(v.Uint()))
			return
		}
		b.Append(v.Int())
	case *array.Float64Builder:
		b.Append(v.Float())
	case *array.BooleanBuilder:
		b.Append(v.Bool())
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(v.Int()))
	}
}
