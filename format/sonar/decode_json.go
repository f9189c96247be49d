package sonar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// decodeJSON decodes a sequence of objects.
func decodeJSON(r io.Reader, yield func(Record, error) bool) {
	d := json.NewDecoder(r)
	d.UseNumber()
	for {
		o := object{dec: d}
		err := o.read()
		if errors.Is(err, io.EOF) && !o.begun {
			return
		}
		records, bad := o.records(err != nil)
		for _, rec := range records {
			if !yield(rec, nil) {
				return
			}
		}
		if err == nil {
			err = bad
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if !yield(nil, &Error{Offset: d.InputOffset(), Err: err}) || !errors.Is(err, bad) {
			return
		}
	}
}

// object is one top-level object: an envelope of sonar ps or slurm, or a record.
type object struct {
	dec     *json.Decoder
	begun   bool
	scalars []Field
	load    []uint64
	gpus    []GPU
	cards   []Card
	samples []Sample
	jobs    []JobRecord
	kind    string // "samples" or "jobs" for an envelope, kindNew for one of the new format
	new     map[string]json.RawMessage
}

const kindNew = "meta"

// read reads the valid part of the object.
func (o *object) read() error {
	t, err := o.dec.Token()
	if err != nil {
		return err
	}
	o.begun = true
	if t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	return members(o.dec, o.member)
}

// members calls one for each member of an object after its '{', with the decoder at the value.
func members(d *json.Decoder, one func(name string) error) error {
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // an object has no other keys
		if err := one(name); err != nil {
			return fmt.Errorf("%.40s: %w", strings.TrimSpace(clean(name)), err)
		}
	}
	_, err := d.Token()
	return err
}

func (o *object) member(name string) error {
	switch name {
	case kindNew, "data", "errors":
		var raw json.RawMessage
		if err := o.dec.Decode(&raw); err != nil {
			return err
		}
		if o.new == nil {
			o.new = map[string]json.RawMessage{}
		}
		o.kind, o.new[name] = kindNew, raw
		return nil
	case "samples":
		o.kind = name
		return each(o.dec, &o.samples, maxRecords, func(s *Sample, raw json.RawMessage) error {
			if err := setAll(raw, s.set); err != nil {
				return err
			}
			if s.User == "" || s.Cmd == "" {
				return errors.New("no user or no cmd")
			}
			return nil
		})
	case "jobs":
		o.kind = name
		return each(o.dec, &o.jobs, maxRecords, func(j *JobRecord, raw json.RawMessage) error {
			if err := setAll(raw, j.set); err != nil {
				return err
			}
			if zero(j.JobID) && zero(j.JobIDRaw) {
				return errors.New("no JobID")
			}
			return nil
		})
	case "gpuinfo":
		return each(o.dec, &o.gpus, maxGPUs, func(g *GPU, raw json.RawMessage) error { return setAll(raw, g.set) })
	case "gpu_info":
		return each(o.dec, &o.cards, maxGPUs, func(c *Card, raw json.RawMessage) error { return setAll(raw, c.set) })
	}
	var raw json.RawMessage
	if err := o.dec.Decode(&raw); err != nil {
		return err
	}
	if name == "load" {
		return json.Unmarshal(raw, &o.load)
	}
	text, ok, err := fieldText(name, raw)
	if ok && len(o.scalars) < maxFields {
		o.scalars = append(o.scalars, Field{Name: name, Text: text})
	}
	return err
}

const maxRecords = 1 << 30 // of an envelope, which the input bounds

// each reads the valid part of an array of objects.
func each[T any](d *json.Decoder, to *[]T, limit int, one func(*T, json.RawMessage) error) error {
	t, err := d.Token()
	if err != nil || t == nil { // null
		return err
	}
	if t != json.Delim('[') {
		return errors.New("not a JSON array")
	}
	for d.More() {
		if len(*to) >= limit {
			return fmt.Errorf("more than %d elements", limit)
		}
		var raw json.RawMessage
		var item T
		err := d.Decode(&raw)
		if err == nil {
			err = one(&item, raw)
		}
		if err != nil {
			return fmt.Errorf("number %d: %w", len(*to)+1, err)
		}
		*to = append(*to, item)
	}
	_, err = d.Token()
	return err
}

// setAll sets all texts and numbers of an object.
func setAll(raw json.RawMessage, set func(name, text string) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	return members(d, func(name string) error {
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		text, ok, err := fieldText(name, value)
		if err != nil || !ok {
			return err
		}
		return set(name, text)
	})
}

// scalar returns the text of a string or a number. Records have no other scalars.
func scalar(raw json.RawMessage) (string, bool) {
	switch {
	case len(raw) == 0:
		return "", false
	case raw[0] == '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return clean(s), err == nil
	case strings.IndexByte("-0123456789", raw[0]) >= 0:
		return string(raw), true
	}
	return "", false
}

// fieldText returns the text of a field; ok is false for a value that no field has. Some writers have
// gpus as a list of numbers.
func fieldText(name string, raw json.RawMessage) (text string, ok bool, err error) {
	text, ok = scalar(raw)
	if ok || name != "gpus" {
		return text, ok, nil
	}
	var list []json.Number // null is an empty one
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", false, errors.New("neither a text nor a list of numbers")
	}
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = n.String()
	}
	return strings.Join(words, ","), true, nil
}

// records returns the records of the object. A truncated object gives the records of its array,
// if the fields of the envelope come before them.
func (o *object) records(cut bool) ([]Record, error) {
	switch o.kind {
	case kindNew:
		return o.newRecords(cut)
	case "samples":
		return o.sampleRecords()
	case "jobs":
		return o.jobRecords()
	}
	if cut || !o.begun {
		return nil, nil
	}
	rec := recordOf(o.scalars)
	if sysinfo, ok := rec.(*Sysinfo); ok {
		sysinfo.GPUInfo = o.cards
	}
	done, err := complete(rec, o.scalars)
	if err != nil {
		return nil, err
	}
	return []Record{done}, nil
}

// newRecords returns the records of an envelope of the new format; none if it is cut.
func (o *object) newRecords(cut bool) ([]Record, error) {
	if cut {
		return nil, nil
	}
	var e envelope
	for name, to := range map[string]any{kindNew: &e.Meta, "data": &e.Data, "errors": &e.Errors} {
		if raw, ok := o.new[name]; ok {
			if err := json.Unmarshal(raw, to); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return e.records()
}

func (o *object) sampleRecords() ([]Record, error) {
	var head Sample
	if err := setFields(&head, o.scalars); err != nil {
		return nil, err
	}
	envelope := head
	envelope.User, envelope.Cmd = NoInfo, NoInfo // an envelope has none
	if err := envelope.check(); err != nil {
		return nil, err
	}
	var records []Record
	for i := range o.samples {
		s := &o.samples[i]
		s.Version, s.Time, s.Host = head.Version, head.Time, head.Host
		if i == 0 {
			s.Load, s.GPUInfo = o.load, o.gpus
		}
		records = append(records, s)
	}
	return records, nil
}

func (o *object) jobRecords() ([]Record, error) {
	i := slices.IndexFunc(o.scalars, func(f Field) bool { return (f.Name == "v" || f.Name == "version") && f.Text != "" })
	if i < 0 {
		return nil, errors.New("no version (v)")
	}
	var records []Record
	for k := range o.jobs {
		o.jobs[k].Version = o.scalars[i].Text
		records = append(records, &o.jobs[k])
	}
	return records, nil
}
