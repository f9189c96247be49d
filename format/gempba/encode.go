package gempba

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/resource-tracker/rt"
)

// AppendLine appends the envelope as one line. It appends nothing if a limit is exceeded (ErrLimit).
func AppendLine(b []byte, e *Envelope) ([]byte, error) {
	if err := e.check(); err != nil {
		return b, fmt.Errorf("write a line of telemetry: %w", err)
	}
	out := *e
	out.Topology = e.Topology.listed()
	out.Workers, out.Nodes = copied(e.Workers), copied(e.Nodes)
	for i := range out.Workers {
		w := &out.Workers[i]
		w.ProcessCPUPct, w.EdgesOut = finite(w.ProcessCPUPct), copied(w.EdgesOut)
		w.number()
	}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.Sockets = copied(n.Sockets)
		n.number()
		for k := range n.Sockets {
			n.Sockets[k].CPUPct = finite(n.Sockets[k].CPUPct)
			n.Sockets[k].number()
		}
	}
	line, err := json.Marshal(out)
	if err != nil {
		return b, fmt.Errorf("write a line of telemetry: %w", err)
	}
	if len(line) >= MaxLine {
		return b, fmt.Errorf("write a line of telemetry: it has %d bytes: %w (%d)", len(line), ErrLimit, MaxLine)
	}
	return append(append(b, line...), '\n'), nil
}

// copied returns a copy of a list that is never nil: readers need not expect null.
func copied[T any](list []T) []T { return append([]T{}, list...) }

// listed returns a copy of t without nil lists and absent numbers.
func (t *Topology) listed() *Topology {
	if t == nil {
		return nil
	}
	out := Topology{Nodes: copied(t.Nodes), Identities: copied(t.Identities)}
	for i := range out.Nodes {
		n := &out.Nodes[i]
		n.WorkerIDs, n.Sockets = copied(n.WorkerIDs), copied(n.Sockets)
		n.number()
		for k := range n.Sockets {
			n.Sockets[k].CPUIDs = copied(n.Sockets[k].CPUIDs)
			n.Sockets[k].number()
		}
	}
	for i := range out.Identities {
		out.Identities[i].number()
	}
	return &out
}

// finite drops values that JSON has no number for.
func finite(v rt.Opt[float64]) rt.Opt[float64] {
	if f := v.Or(0); math.IsNaN(f) || math.IsInf(f, 0) {
		return rt.None[float64]()
	}
	return v
}
