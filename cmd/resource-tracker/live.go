package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/format/gempba/live"
	"github.com/resource-tracker/rt/internal/recovery"
)

// broadcast sends telemetry to the clients of --listen.
type broadcast struct {
	cancel  context.CancelFunc
	done    chan struct{}
	node    *live.Node
	workers io.Closer        // nil for none
	conns   *live.ConnReader // nil if the kernel does not support them
}

// openLive starts to listen. The workers are the job's tasks here, or the tree's processes.
func (t *tracking) openLive(s settings, warn func(error)) error {
	listener, err := live.Listen(context.Background(), *s.listen, os.Geteuid())
	if err != nil {
		return err
	}
	if listener.Public() {
		warn(fmt.Errorf("any host that reaches this machine can read the telemetry at %s; --listen 127.0.0.1:PORT is for this machine alone", listener.Addr()))
	}
	if listener.Addr() != s.listen.String() {
		printMessage(fmt.Sprintf("resource-tracker: the telemetry is at %s\n", listener.Addr()))
	}
	b := &broadcast{done: make(chan struct{})}
	options := live.NodeOptions{
		Hostname: t.run.Node, Procfs: s.procfs, Sysfs: s.sysfs, Warn: warn,
		Groups: func() ([]live.Group, error) { return nil, nil },
	}
	if err := b.findWorkers(s, &t.run, &options); err != nil {
		return errors.Join(err, listener.Close())
	}
	b.conns, err = live.OpenConns()
	if err != nil {
		warn(err)
	} else {
		options.Conns = b.conns.Read
	}
	b.node = live.NewNode(options)
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	server := live.NewServer(b.node, warn)
	go func() {
		defer close(b.done)
		defer recovery.Handle(func(err error) { warn(fmt.Errorf("the telemetry has ended: %w", err)) })
		server.Serve(ctx, listener)
	}()
	t.live = b
	return nil
}

func (b *broadcast) findWorkers(s settings, run *rt.Run, o *live.NodeOptions) error {
	pid, tree := run.PID.Get()
	switch {
	case s.scope == rt.ScopeJob:
		job, err := newJobSource(s, run)
		if err != nil {
			return err
		}
		tasks := live.NewTasks(s.procfs, job.Job)
		b.workers, o.Groups, o.Memory = job, tasks.Groups, tasks.Memory
	case tree:
		processes := live.NewTree(s.procfs, s.sysfs, int(pid))
		b.workers, o.Groups = processes, processes.Groups
	}
	return nil
}

// close closes all connections.
func (b *broadcast) close() error {
	b.cancel()
	<-b.done
	err := b.node.Close()
	if b.workers != nil {
		err = errors.Join(err, b.workers.Close())
	}
	if b.conns != nil {
		err = errors.Join(err, b.conns.Close())
	}
	return err
}
