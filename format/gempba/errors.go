package gempba

import (
	"errors"
	"fmt"
)

// The kinds of errors of a stream. Errors wrap one of these.
var (
	ErrFormat  = errors.New("it is no telemetry of GemPBA")
	ErrVersion = errors.New("its schema is newer than this program")
	ErrLimit   = errors.New("it passes the format's limit")
	ErrCut     = errors.New("it ends in the middle of a line")
)

// check checks the limits.
func (e *Envelope) check() error {
	if e.Version > SchemaVersion {
		return fmt.Errorf("version %d: %w, which knows %d", e.Version, ErrVersion, SchemaVersion)
	}
	if err := checkIDs("workers", e.Workers, func(w *WorkerFrame) uint32 { return w.WorkerID }); err != nil {
		return err
	}
	for i := range e.Workers {
		if err := checkIDs("edges_out", e.Workers[i].EdgesOut, func(to *Edge) uint32 { return to.To }); err != nil {
			return fmt.Errorf("worker %d: %w", e.Workers[i].WorkerID, err)
		}
	}
	if err := checkIDs("nodes", e.Nodes, func(n *NodeFrame) uint32 { return n.SentinelWorkerID }); err != nil {
		return err
	}
	for i := range e.Nodes {
		if n := len(e.Nodes[i].Sockets); n > MaxSockets {
			return fmt.Errorf("node %.64q: %d sockets: %w (%d)", e.Nodes[i].Hostname, n, ErrLimit, MaxSockets)
		}
	}
	return e.Topology.check()
}

func (t *Topology) check() error {
	if t == nil {
		return nil
	}
	if err := checkIDs("identities", t.Identities, func(i *Identity) uint32 { return i.WorkerID }); err != nil {
		return err
	}
	if err := checkIDs("topology", t.Nodes, func(n *TopologyNode) uint32 { return n.SentinelWorkerID }); err != nil {
		return err
	}
	for i := range t.Identities {
		if err := checkCPUs(t.Identities[i].AllowedCPUs); err != nil {
			return fmt.Errorf("identity of worker %d: %w", t.Identities[i].WorkerID, err)
		}
	}
	for i := range t.Nodes {
		n := &t.Nodes[i]
		if len(n.Sockets) > MaxSockets {
			return fmt.Errorf("topology of %.64q: %d sockets: %w (%d)", n.Hostname, len(n.Sockets), ErrLimit, MaxSockets)
		}
		if err := checkIDs("worker_ids", n.WorkerIDs, func(id *uint32) uint32 { return *id }); err != nil {
			return fmt.Errorf("topology of %.64q: %w", n.Hostname, err)
		}
		for k := range n.Sockets {
			if err := checkCPUs(n.Sockets[k].CPUIDs); err != nil {
				return fmt.Errorf("topology of %.64q, socket %d: %w", n.Hostname, n.Sockets[k].SocketID, err)
			}
		}
	}
	return nil
}

// checkIDs checks the number of elements of workers, and their ids.
func checkIDs[T any](what string, list []T, id func(*T) uint32) error {
	if len(list) > MaxWorkers {
		return fmt.Errorf("%s: %d of them: %w (%d)", what, len(list), ErrLimit, MaxWorkers)
	}
	for i := range list {
		if n := id(&list[i]); n >= MaxWorkers {
			return fmt.Errorf("%s: worker %d: %w (ids are below %d)", what, n, ErrLimit, MaxWorkers)
		}
	}
	return nil
}

func checkCPUs(cpus []uint32) error {
	for _, cpu := range cpus {
		if cpu >= MaxCPUs {
			return fmt.Errorf("CPU %d: %w (ids are below %d)", cpu, ErrLimit, MaxCPUs)
		}
	}
	return nil
}
