package gempba

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Decoder decodes the lines of a broadcast.
type Decoder struct {
	lines *bufio.Scanner
	line  int // number of the last one
}

// NewDecoder returns a decoder of r, which may read ahead.
func NewDecoder(r io.Reader) *Decoder {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), MaxLine)
	lines.Split(splitLine)
	return &Decoder{lines: lines}
}

// splitLine is a bufio.SplitFunc of lines that all end in a newline.
func splitLine(data []byte, atEOF bool) (advance int, line []byte, err error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, ErrCut
	}
	return 0, nil, nil
}

// Next decodes the next line. At the end it returns io.EOF, or ErrCut if the stream ends within a
// line. After an error that wraps ErrFormat, ErrVersion or ErrLimit it continues with the next
// line. After a line longer than MaxLine, or an error of the stream, every further call returns
// the same error.
func (d *Decoder) Next() (*Envelope, error) {
	for d.lines.Scan() {
		d.line++
		line := bytes.TrimSpace(d.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		e, err := Parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d of the telemetry: %w", d.line, err)
		}
		return e, nil
	}
	switch err := d.lines.Err(); {
	case err == nil:
		return nil, io.EOF
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("line %d of the telemetry has more than %d bytes: %w", d.line+1, MaxLine, ErrLimit)
	case errors.Is(err, ErrCut):
		return nil, fmt.Errorf("line %d of the telemetry: %w", d.line+1, ErrCut)
	default:
		return nil, fmt.Errorf("read line %d of the telemetry: %w", d.line+1, err)
	}
}

// All yields the lines until the end. After an error that concerns one line, continuing skips it.
func (d *Decoder) All() iter.Seq2[*Envelope, error] {
	return func(yield func(*Envelope, error) bool) {
		for {
			e, err := d.Next()
			if errors.Is(err, io.EOF) || !yield(e, err) || d.lines.Err() != nil {
				return
			}
		}
	}
}

// Parse parses one line, with or without its newline.
func Parse(line []byte) (*Envelope, error) {
	var in struct {
		Envelope
		TS       *int64          `json:"ts"`
		Topology json.RawMessage `json:"topology"`
		Workers  json.RawMessage `json:"workers"`
		Nodes    json.RawMessage `json:"nodes"`
	}
	if err := unmarshal(finiteJSON(line), &in); err != nil {
		return nil, err
	}
	if in.Version > SchemaVersion {
		return nil, fmt.Errorf("version %d: %w, which knows %d", in.Version, ErrVersion, SchemaVersion)
	}
	if in.TS == nil {
		return nil, fmt.Errorf("%w: it has no ts", ErrFormat)
	}
	e := &in.Envelope
	e.TS = *in.TS
	var err error
	e.Topology, err = topology(in.Topology)
	if err != nil {
		return nil, err
	}
	e.Workers, err = workers(in.Workers)
	if err != nil {
		return nil, err
	}
	e.Nodes, err = nodeFrames(in.Nodes)
	if err != nil {
		return nil, err
	}
	return e, e.check()
}

type workerJSON struct {
	WorkerFrame
	WorkerID *uint32         `json:"worker_id"`
	EdgesOut json.RawMessage `json:"edges_out"`
	Peers    json.RawMessage `json:"rt_peers"`
}

func workers(raw json.RawMessage) ([]WorkerFrame, error) {
	list, err := listOf[workerJSON](raw, MaxWorkers, "workers")
	if err != nil {
		return nil, err
	}
	out := make([]WorkerFrame, len(list))
	for i := range list {
		in := &list[i]
		if in.WorkerID == nil {
			return nil, fmt.Errorf("workers: number %d has no worker_id: %w", i+1, ErrFormat)
		}
		w := &out[i]
		*w = in.WorkerFrame
		w.WorkerID = *in.WorkerID
		w.restore()
		w.EdgesOut, err = listOf[Edge](in.EdgesOut, MaxWorkers, "edges_out")
		if err == nil && len(in.Peers) > 0 {
			w.Peers, err = listOf[Peer](in.Peers, MaxPeers, "rt_peers")
		}
		if err != nil {
			return nil, fmt.Errorf("worker %d: %w", w.WorkerID, err)
		}
	}
	return out, nil
}

type nodeFrameJSON struct {
	NodeFrame
	SentinelWorkerID *uint32         `json:"sentinel_worker_id"`
	Sockets          json.RawMessage `json:"sockets"`
}

func nodeFrames(raw json.RawMessage) ([]NodeFrame, error) {
	list, err := listOf[nodeFrameJSON](raw, MaxWorkers, "nodes")
	if err != nil {
		return nil, err
	}
	out := make([]NodeFrame, len(list))
	for i := range list {
		in := &list[i]
		if in.SentinelWorkerID == nil {
			return nil, fmt.Errorf("nodes: number %d has no sentinel_worker_id: %w", i+1, ErrFormat)
		}
		sockets, err := listOf[SocketFrame](in.Sockets, MaxSockets, "sockets")
		if err != nil {
			return nil, fmt.Errorf("node %.64q: %w", in.Hostname, err)
		}
		out[i] = in.NodeFrame
		out[i].SentinelWorkerID, out[i].Sockets = *in.SentinelWorkerID, sockets
		out[i].restore()
		for k := range sockets {
			sockets[k].restore()
		}
	}
	return out, nil
}

func topology(raw json.RawMessage) (*Topology, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var in struct {
		Nodes      json.RawMessage `json:"nodes"`
		Identities json.RawMessage `json:"identities"`
	}
	if err := unmarshal(raw, &in); err != nil {
		return nil, err
	}
	t := &Topology{}
	var err error
	t.Identities, err = identities(in.Identities)
	if err != nil {
		return nil, err
	}
	nodes, err := listOf[json.RawMessage](in.Nodes, MaxWorkers, "topology")
	if err != nil {
		return nil, err
	}
	t.Nodes = make([]TopologyNode, len(nodes))
	for i := range nodes {
		if err := t.Nodes[i].read(nodes[i]); err != nil {
			return nil, fmt.Errorf("topology of node %d: %w", i+1, err)
		}
	}
	return t, nil
}

func (n *TopologyNode) read(raw json.RawMessage) error {
	type plain TopologyNode
	in := struct {
		*plain
		WorkerIDs json.RawMessage `json:"worker_ids"`
		Sockets   json.RawMessage `json:"sockets"`
	}{plain: (*plain)(n)}
	if err := unmarshal(raw, &in); err != nil {
		return err
	}
	n.restore()
	var err error
	n.WorkerIDs, err = listOf[uint32](in.WorkerIDs, MaxWorkers, "worker_ids")
	if err != nil {
		return err
	}
	sockets, err := listOf[json.RawMessage](in.Sockets, MaxSockets, "sockets")
	if err != nil {
		return err
	}
	n.Sockets = make([]Socket, len(sockets))
	for i := range sockets {
		type plain Socket
		in := struct {
			*plain
			CPUIDs json.RawMessage `json:"cpu_ids"`
		}{plain: (*plain)(&n.Sockets[i])}
		if err := unmarshal(sockets[i], &in); err != nil {
			return err
		}
		n.Sockets[i].restore()
		n.Sockets[i].CPUIDs, err = cpuIDs(in.CPUIDs, "cpu_ids")
		if err != nil {
			return err
		}
	}
	return nil
}

// listOf parses a list of at most limit elements. null and an absent list are empty.
func listOf[T any](raw json.RawMessage, limit int, name string) ([]T, error) {
	out := []T{}
	if len(raw) == 0 || string(raw) == "null" {
		return out, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("%s is not a list: %w", name, ErrFormat)
	}
	for d.More() {
		if len(out) == limit {
			return nil, fmt.Errorf("%s: more than %d of them: %w", name, limit, ErrLimit)
		}
		var one T
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("%s: number %d: %w: %w", name, len(out)+1, ErrFormat, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func unmarshal(b []byte, to any) error {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return fmt.Errorf("%w: not a JSON object", ErrFormat)
	}
	if err := json.Unmarshal(b, to); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return nil
}
