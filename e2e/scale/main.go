// Scale drains the spools of many simulated nodes to one real receiver on this machine. First all drain at the same
// instant, as cron starts them, and then with a random delay. It measures how many runs a second the receiver
// accepts, with SQLite and a directory and with PostgreSQL and MinIO. The figures that it prints are the constants of
// the model in upload/DESIGN.md. Each node is an upload.Drain with its own connections and a spool in memory. RT_BIN
// names the directory of the programs, RT_MINIO the MinIO server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

type options struct {
	nodes, rows int
	jitter      time.Duration
	program     string
	dir         string
	capacity    bool
	lists       string
	records     *records
}

func main() {
	var o options
	flag.IntVar(&o.nodes, "nodes", 2000, "simulated nodes, with one run each")
	flag.IntVar(&o.rows, "rows", 60, "rows of a run")
	flag.DurationVar(&o.jitter, "jitter", time.Minute, "random part of it that a node waits in the second round")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "file system that the receiver keeps its data on")
	flag.BoolVar(&o.capacity, "capacity", false, "measure only how many runs a second the receiver takes")
	flag.StringVar(&o.lists, "lists", "", "output of go test -bench Jobs ./site/registry, for the list of goals")
	flag.Parse()
	bin := os.Getenv("RT_BIN")
	if bin == "" {
		bin = "build/bin"
	}
	o.program = filepath.Join(bin, "rt-site")
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	var lists []figure
	if o.lists != "" {
		var err error
		if lists, err = listFigures(o.lists); err != nil {
			return err
		}
	}
	number := 0
	for _, s := range steps {
		number += s.runs
	}
	made, err := newRecords(ctx, o, max(number, o.nodes))
	if err != nil {
		return fmt.Errorf("make records: %w", err)
	}
	o.records = &made
	var figures []figure
	if !o.capacity {
		if figures, err = storms(ctx, o); err != nil {
			return err
		}
	}
	for _, open := range []func(context.Context) (stores, error){files, central} {
		err := with(ctx, o, open, func(st stores, r *receiver) error {
			more, err := capacity(ctx, o, st, r)
			figures = append(figures, more...)
			return err
		})
		if err != nil {
			return err
		}
	}
	printFigures(append(figures, lists...))
	return nil
}

// storms drains all nodes at the same instant, and then with a jitter. It returns the memory of the receiver.
func storms(ctx context.Context, o options) (figures []figure, err error) {
	for _, round := range []struct {
		name   string
		jitter time.Duration
	}{{"all at once", 0}, {"jitter " + o.jitter.String(), o.jitter}} {
		if err := with(ctx, o, files, func(_ stores, r *receiver) error {
			fmt.Printf("%d nodes, %s\n", o.nodes, round.name)
			err := storm(ctx, o, r, round.jitter)
			what := fmt.Sprintf("memory of the receiver, %d nodes, %s", o.nodes, round.name)
			figures = append(figures, figure{what, r.resident(), 150, "MiB", true})
			return err
		}); err != nil {
			return nil, err
		}
	}
	return figures, nil
}

// with starts a receiver with new stores for one round.
func with(ctx context.Context, o options, open func(context.Context) (stores, error), do func(stores, *receiver) error) (err error) {
	dir, err := os.MkdirTemp(o.dir, "rt-scale-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	st, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.end()) }()
	r, err := startReceiver(o.program, dir, st)
	if err != nil {
		return err
	}
	if err := do(st, r); err != nil {
		r.kill()
		return err
	}
	return r.stop()
}
