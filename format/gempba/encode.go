package gempba

import (
	"encoding/json"
	"fmt"
)

// AppendLine appends the envelope as one line. It appends nothing if a limit is exceeded (ErrLimit).
func AppendLine(b []byte, e *Envelope) ([]byte, error) {
	if err := e.check(); err != nil {
		return b, fmt.Errorf("write a line of telemetry: %w", err)
	}
	out := *e
	out.Workers, out.Nodes = listed(e.Workers), listed(e.Nodes)
	line, err := json.Marshal(out)
	if err != nil {
		return b, fmt.Errorf("write a line of telemetry: %w", err)
	}
	if len(line) >= MaxLine {
		return b, fmt.Errorf("write a line of telemetry: it has %d bytes: %w (%d)", len(line), ErrLimit, MaxLine)
	}
	return append(append(b, line...), '\n'), nil
}

// listed returns a list that is not nil: readers need not expect null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// MarshalJSON implements json.Marshaler.
func (w WorkerFrame) MarshalJSON() ([]byte, error) {
	type plain WorkerFrame
	w.EdgesOut, w.Unread = listed(w.EdgesOut), zeroUnread(&w)
	return json.Marshal(plain(w))
}

// MarshalJSON implements json.Marshaler.
func (n NodeFrame) MarshalJSON() ([]byte, error) {
	type plain NodeFrame
	n.Sockets, n.Unread = listed(n.Sockets), zeroUnread(&n)
	return json.Marshal(plain(n))
}

// MarshalJSON implements json.Marshaler.
func (s SocketFrame) MarshalJSON() ([]byte, error) {
	type plain SocketFrame
	s.Unread = zeroUnread(&s)
	return json.Marshal(plain(s))
}

// MarshalJSON implements json.Marshaler.
func (t Topology) MarshalJSON() ([]byte, error) {
	type plain Topology
	t.Nodes, t.Identities = listed(t.Nodes), listed(t.Identities)
	return json.Marshal(plain(t))
}

// MarshalJSON implements json.Marshaler.
func (n TopologyNode) MarshalJSON() ([]byte, error) {
	type plain TopologyNode
	n.WorkerIDs, n.Sockets, n.Unread = listed(n.WorkerIDs), listed(n.Sockets), zeroUnread(&n)
	return json.Marshal(plain(n))
}

// MarshalJSON implements json.Marshaler.
func (s Socket) MarshalJSON() ([]byte, error) {
	type plain Socket
	s.CPUIDs, s.Unread = listed(s.CPUIDs), zeroUnread(&s)
	return json.Marshal(plain(s))
}

// MarshalJSON writes the CPUs as a list and as a mask. Unknown ones are an empty list.
func (i Identity) MarshalJSON() ([]byte, error) {
	type plain Identity
	i.Unread = zeroUnread(&i)
	if i.AllowedCPUs == nil {
		i.AllowedCPUs, i.Unread = []uint32{}, append(i.Unread, allowedCPUs)
	}
	return json.Marshal(struct {
		plain
		AllowedMask string `json:"allowed_cpu_mask"`
	}{plain(i), Mask(i.AllowedCPUs)})
}
