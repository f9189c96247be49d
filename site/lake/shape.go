package lake

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

// errType means that a type of Go cannot be stored in a column.
var errType = errors.New("the lake has no column for this type")

// shape is how a type of Go is stored: as its JSON, with a column for each leaf. A value that JSON has as null, or
// does not have, is null.
type shape struct {
	kind   shapeKind
	fields []field                                   // of a group
	of     *shape                                    // the element of a list or map, or what a pointer points to
	node   parquet.Node                              // of a leaf
	value  func(reflect.Value) (parquet.Value, bool) // of a leaf
	column int                                       // of a leaf, and of the keys of a map
	leaves []int                                     // columns below
}

type shapeKind int

const (
	isLeaf shapeKind = iota
	isGroup
	isPointer
	isList
	isMap
)

// field is a field of a group.
type field struct {
	name  string
	index []int
	*shape
}

var timeType = reflect.TypeFor[time.Time]()

// shapeOf returns the shape of a type.
func shapeOf(t reflect.Type) (*shape, error) {
	switch {
	case t == timeType:
		return &shape{node: timeNode(), value: func(v reflect.Value) (parquet.Value, bool) {
			at := v.Interface().(time.Time)
			return moment(at), !at.IsZero()
		}}, nil
	case isOpt(t):
		at := reflect.New(t)
		read := reader(at.Interface())
		return &shape{node: nodeOf(at.Interface()), value: func(v reflect.Value) (parquet.Value, bool) {
			at.Elem().Set(v)
			return read()
		}}, nil
	}
	switch t.Kind() {
	case reflect.String:
		return &shape{node: textNode(), value: func(v reflect.Value) (parquet.Value, bool) {
			return text(strings.ToValidUTF8(v.String(), "?")), v.String() != ""
		}}, nil
	case reflect.Bool:
		return &shape{node: boolNode(), value: func(v reflect.Value) (parquet.Value, bool) { return parquet.BooleanValue(v.Bool()), true }}, nil
	case reflect.Int, reflect.Int64, reflect.Int32:
		return &shape{node: intNode(), value: func(v reflect.Value) (parquet.Value, bool) { return parquet.Int64Value(v.Int()), true }}, nil
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		return &shape{node: intNode(), value: func(v reflect.Value) (parquet.Value, bool) { return integer(v.Uint()), true }}, nil
	case reflect.Float64:
		return &shape{node: floatNode(), value: func(v reflect.Value) (parquet.Value, bool) { return parquet.DoubleValue(v.Float()), true }}, nil
	case reflect.Struct:
		s := &shape{kind: isGroup}
		return s, s.addFields(t, nil)
	case reflect.Pointer:
		return shapeAround(isPointer, t.Elem())
	case reflect.Slice:
		return shapeAround(isList, t.Elem())
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return shapeAround(isMap, t.Elem())
		}
	}
	return nil, fmt.Errorf("%w: %s", errType, t)
}

// isOpt reports whether a type is an rt.Opt.
func isOpt(t reflect.Type) bool {
	return strings.HasPrefix(t.Name(), "Opt[") && t.PkgPath() == "github.com/resource-tracker/rt"
}

func shapeAround(kind shapeKind, of reflect.Type) (*shape, error) {
	inner, err := shapeOf(of)
	return &shape{kind: kind, of: inner}, err
}

// addFields adds the fields of a struct as encoding/json does.
func (s *shape) addFields(t reflect.Type, path []int) error {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int{}, path...), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		isEmbedded := f.Anonymous && name == ""
		switch {
		case isEmbedded:
			if err := s.addFields(f.Type, index); err != nil {
				return err
			}
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		inner, err := shapeOf(f.Type)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.fields = append(s.fields, field{name, index, inner})
	}
	return nil
}

// node returns the column or columns of the shape.
func (s *shape) parquet() parquet.Node {
	switch s.kind {
	case isGroup:
		group := parquet.Group{}
		for _, f := range s.fields {
			group[f.name] = f.parquet()
		}
		return group
	case isPointer:
		return parquet.Optional(s.of.parquet())
	case isList:
		return parquet.Optional(parquet.List(s.of.parquet()))
	case isMap:
		return parquet.Optional(parquet.Map(parquet.String(), s.of.parquet()))
	}
	return s.node
}

// bind finds the numbers of the columns.
func (s *shape) bind(schema *parquet.Schema, path ...string) {
	below := func(names ...string) []string { return append(append([]string{}, path...), names...) }
	switch s.kind {
	case isLeaf:
		s.column = indexOf(schema, path...)
		s.leaves = []int{s.column}
		return
	case isGroup:
		for _, f := range s.fields {
			f.bind(schema, below(f.name)...)
			s.leaves = append(s.leaves, f.leaves...)
		}
		return
	case isPointer:
		s.of.bind(schema, path...)
	case isList:
		s.of.bind(schema, below("list", "element")...)
	case isMap:
		s.column = indexOf(schema, below("key_value", "key")...)
		s.of.bind(schema, below("key_value", "value")...)
		s.leaves = []int{s.column}
	}
	s.leaves = append(s.leaves, s.of.leaves...)
}

// place is the position of a value in a row: its levels, and the level at which the elements of a list repeat.
type place struct{ repetition, definition, depth int }

// add adds a value to the columns.
func (s *shape) add(columns [][]parquet.Value, v reflect.Value, at place) {
	switch s.kind {
	case isLeaf:
		value, ok := s.value(v)
		if !ok {
			s.absent(columns, at)
			return
		}
		columns[s.column] = append(columns[s.column], value.Level(at.repetition, at.definition+1, s.column))
	case isGroup:
		for _, f := range s.fields {
			f.add(columns, v.FieldByIndex(f.index), at)
		}
	case isPointer:
		if v.IsNil() {
			s.absent(columns, at)
			return
		}
		at.definition++
		s.of.add(columns, v.Elem(), at)
	case isList:
		s.addList(columns, v, at)
	case isMap:
		s.addMap(columns, v, at)
	}
}

// within is the place of an element of a list.
func (p place) within(n int) place {
	in := place{p.repetition, p.definition + 2, p.depth + 1}
	if n > 0 {
		in.repetition = in.depth
	}
	return in
}

func (s *shape) addList(columns [][]parquet.Value, v reflect.Value, at place) {
	if v.Len() == 0 {
		s.absent(columns, at)
		return
	}
	for i := range v.Len() {
		s.of.add(columns, v.Index(i), at.within(i))
	}
}

func (s *shape) addMap(columns [][]parquet.Value, v reflect.Value, at place) {
	if v.Len() == 0 {
		s.absent(columns, at)
		return
	}
	keys := sortedKeys(v)
	for i, key := range keys {
		in := at.within(i)
		value := text(strings.ToValidUTF8(key.String(), "?"))
		columns[s.column] = append(columns[s.column], value.Level(in.repetition, in.definition, s.column))
		s.of.add(columns, v.MapIndex(key), in)
	}
}

// absent adds a null to each column below.
func (s *shape) absent(columns [][]parquet.Value, at place) {
	for _, c := range s.leaves {
		columns[c] = append(columns[c], parquet.NullValue().Level(at.repetition, at.definition, c))
	}
}
