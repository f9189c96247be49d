package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/fault"
	"github.com/resource-tracker/rt/cmd/internal/jobcgroup"
	"github.com/resource-tracker/rt/cmd/internal/live"
	"github.com/resource-tracker/rt/collect/cgroup"
	"github.com/resource-tracker/rt/collect/sockets"
)

// broadcast shows what is tracked to those who connect to --listen.
type broadcast struct {
	cancel  context.CancelFunc
	done    chan struct{}
	node    *live.Node
	workers io.Closer       // nil where there are none
	conns   *sockets.Reader // nil where the kernel does not tell
}

// openLive begins to listen. The workers are the job's tasks on this node with the
// job's scope, else the processes of the tree.
func (t *tracking) openLive(s settings, warn func(error)) error {
	listener, err := live.Listen(context.Background(), *s.listen, os.Geteuid())
	if err != nil {
		return err
	}
	if listener.Public() {
		warn(fmt.Errorf("whoever reaches this machine can watch the telemetry at %s; --listen 127.0.0.1:PORT is for this machine alone", listener.Addr()))
	}
	if listener.Addr() != s.listen.String() {
		tell(fmt.Sprintf("resource-tracker: the telemetry is at %s\n", listener.Addr()))
	}
	b := &broadcast{done: make(chan struct{})}
	options := live.NodeOptions{
		Hostname: t.run.Node, Procfs: s.procfs, Sysfs: s.sysfs, Warn: warn,
		Groups: func() ([]live.Group, error) { return nil, nil },
	}
	if err := b.findWorkers(s, &t.run, &options); err != nil {
		return errors.Join(err, listener.Close())
	}
	if b.conns, err = sockets.Open(); err != nil {
		warn(err)
	} else {
		options.Conns = b.conns
	}
	b.node = live.NewNode(options)
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	server := live.NewServer(b.node, warn)
	go func() {
		defer fault.Survive(warn)
		server.Accept(ctx, listener)
	}()
	go func() {
		defer close(b.done)
		defer fault.Survive(func(err error) { warn(fmt.Errorf("the telemetry has ended: %w", err)) })
		server.Run(ctx)
	}()
	t.live = b
	return nil
}

func (b *broadcast) findWorkers(s settings, run *rt.Run, o *live.NodeOptions) error {
	pid, tree := run.PID.Get()
	switch {
	case s.scope == rt.ScopeJob:
		mounts, err := cgroupMounts(s)
		if err != nil {
			return err
		}
		job, err := cgroup.NewJob(jobcgroup.Candidates(run, mounts), cgroup.Options{ProcRoot: s.procfs, NoShort: true})
		if err != nil {
			return fmt.Errorf("watch the cgroup of job %s: %w", run.Label(), err)
		}
		source := jobSource{job, make(chan struct{})}
		go source.drain()
		tasks := live.NewTasks(s.procfs, job)
		b.workers, o.Groups, o.Memory = source, tasks.Groups, tasks.Memory
	case tree:
		processes := live.NewTree(s.procfs, s.sysfs, int(pid))
		b.workers, o.Groups = processes, processes.Groups
	}
	return nil
}

// close lets all clients go.
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
