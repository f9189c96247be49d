package sonar

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// column is a field of a record. Reading and writing use it, in both formats.
type column struct {
	name  string // tag of the field
	index int    // in its struct
}

// columnsOf returns the fields of a record that have a tag, in the order of the formats.
func columnsOf[T any]() (columns []column) {
	for field := range reflect.TypeFor[T]().Fields() {
		if name := field.Tag.Get("sonar"); name != "" {
			columns = append(columns, column{name, field.Index[0]})
		}
	}
	return columns
}

// at returns a pointer to the field of a record. parse lists the possible types.
func (c column) at(rec any) any { return reflect.ValueOf(rec).Elem().Field(c.index).Addr().Interface() }

// find returns a pointer to the named field of a record, nil if there is none.
func find(columns []column, rec any, name string) any {
	if i := slices.IndexFunc(columns, func(c column) bool { return c.name == name }); i >= 0 {
		return columns[i].at(rec)
	}
	return nil
}

// parse sets the field that at points to, or nothing if at is nil.
func parse(at any, text string) (err error) {
	switch p := at.(type) {
	case *uint64:
		*p, err = parseInteger(text)
	case *float64:
		*p, err = parseFloat(text)
	case *string:
		*p = text
	case *time.Time:
		*p, err = parseTime(text)
	case *GPUSet:
		*p, err = parseGPUSet(text)
	case *[]uint64:
		*p, err = decodeLoad(text)
	case *[]GPU:
		*p, err = parseGPUInfo(text)
	case *[]Card:
		*p, err = parseCards(text)
	}
	return err
}

// cleanTexts replaces what the formats do not allow in the texts of a record.
func cleanTexts(columns []column, rec any) {
	for _, c := range columns {
		if text, ok := c.at(rec).(*string); ok {
			*text = clean(*text)
		}
	}
}

// checkWritable returns an error if the formats cannot hold a field of the record. place follows the
// name of a number in the error, for example " of GPU 3".
func checkWritable(columns []column, rec any, place string) (err error) {
	for _, c := range columns {
		switch p := c.at(rec).(type) {
		case *uint64:
			if *p > maxInteger {
				return fmt.Errorf("%s%s is %d, which has more than 52 bits", c.name, place, *p)
			}
		case *float64:
			if math.IsNaN(*p) || math.IsInf(*p, 0) || *p < 0 {
				return fmt.Errorf("%s is %v: it must be 0 or more", c.name, *p)
			}
		case *time.Time:
			if p.Before(minTime) || p.After(maxTime) {
				return fmt.Errorf("the %s is not between 1970 and 2262", c.name)
			}
		case *[]GPU:
			err = checkList(gpuColumns, *p, " of GPU ")
		case *[]Card:
			err = checkList(cardColumns, *p, " of card ")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkList is checkWritable for the elements of a list.
func checkList[T any](columns []column, list []T, place string) error {
	if len(list) > maxGPUs {
		return fmt.Errorf("%d GPUs are more than a host can have", len(list))
	}
	for i := range list {
		if err := checkWritable(columns, &list[i], place+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

// encoder appends the fields of a flat record.
type encoder struct {
	dst   []byte
	start int  // of the record
	json  bool // otherwise free CSV
}

// putAll appends the fields of a record that differ from their defaults.
func putAll(e *encoder, columns []column, rec any) {
	for _, c := range columns {
		e.putField(c.name, c.at(rec))
	}
}

// putField appends a field, unless it has its default. The index of a card is never left out.
func (e *encoder) putField(name string, at any) {
	switch p := at.(type) {
	case *uint64:
		if *p != 0 || name == "index" {
			e.number(name, strconv.FormatUint(*p, 10))
		}
	case *float64:
		if *p != 0 {
			e.number(name, formatFloat(*p))
		}
	case *string:
		if *p != "" {
			e.text(name, clean(*p))
		}
	case *time.Time:
		e.text(name, formatTime(*p))
	case *GPUSet:
		if text := p.String(); text != "none" {
			e.text(name, text)
		}
	case *[]uint64:
		putList(e, name, *p, appendLoad, func(dst []byte, seconds *uint64) []byte { return strconv.AppendUint(dst, *seconds, 10) })
	case *[]GPU:
		putList(e, name, *p, appendGPUInfo, func(dst []byte, g *GPU) []byte { return appendObject(dst, gpuColumns, g) })
	case *[]Card:
		putList(e, name, *p, appendCards, func(dst []byte, c *Card) []byte { return appendObject(dst, cardColumns, c) })
	}
}

// putList appends a list: as one text in CSV, as an array in JSON. one appends an element.
func putList[T any](e *encoder, name string, list []T, csv func([]byte, []T) []byte, one func([]byte, *T) []byte) {
	switch {
	case len(list) == 0:
	case e.json:
		e.name(name)
		e.dst = appendArray(e.dst, list, one)
	default:
		e.text(name, string(csv(nil, list)))
	}
}

// appendArray appends a JSON array.
func appendArray[T any](dst []byte, list []T, one func([]byte, *T) []byte) []byte {
	dst = append(dst, '[')
	for i := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, &list[i])
	}
	return append(dst, ']')
}

// appendObject appends a record as a JSON object.
func appendObject(dst []byte, columns []column, rec any) []byte {
	e := encoder{dst: append(dst, '{'), start: len(dst) + 1, json: true}
	putAll(&e, columns, rec)
	return append(e.dst, '}')
}

// appendCSV appends a record as one line of free CSV with its newline.
func appendCSV(dst []byte, columns []column, rec any) []byte {
	e := encoder{dst: dst, start: len(dst)}
	putAll(&e, columns, rec)
	return append(e.dst, '\n')
}

func (e *encoder) name(name string) {
	if len(e.dst) > e.start {
		e.dst = append(e.dst, ',')
	}
	if e.json {
		e.dst = append(appendString(e.dst, name), ':')
	}
}

func (e *encoder) text(name, value string) {
	e.name(name)
	if e.json {
		e.dst = appendString(e.dst, value)
		return
	}
	e.dst = appendElement(e.dst, name+"="+value)
}

func (e *encoder) number(name, value string) {
	e.name(name)
	if !e.json {
		e.dst = append(append(e.dst, name...), '=')
	}
	e.dst = append(e.dst, value...)
}

func formatFloat(v float64) string { return strconv.FormatFloat(math.Abs(v), 'f', -1, 64) } // no "-0"

var escaped = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

// appendString appends s as a JSON string. clean must have returned s.
func appendString(dst []byte, s string) []byte {
	return append(append(append(dst, '"'), escaped.Replace(s)...), '"')
}
