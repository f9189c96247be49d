package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
)

// records are the complete records of the nodes' runs, and the figures that all of them have. They are
// made before the measurement: making one takes more CPU time than the receiver needs for a run.
type records struct {
	bodies  [][]byte
	figures []byte
}

// newRecords makes the records of a number of nodes from one spool file.
func newRecords(ctx context.Context, o options, number int) (r records, err error) {
	dir, err := os.MkdirTemp(o.dir, "rt-scale-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	path, err := spoolRun(ctx, dir, newNode(0, o.rows, nil))
	if err != nil {
		return r, err
	}
	file, err := spool.Open(path)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum, err := report.Summarize(file.Run(), nil, file.Usage(ctx, 1, 0))
	if err != nil {
		return r, err
	}
	r.figures, err = json.Marshal(sum.Figures())
	if err != nil {
		return r, err
	}
	total := 0
	for n := range number {
		run := newNode(n, o.rows, nil).run
		var b bytes.Buffer
		if err := archive.Write(ctx, &b, file, &spool.DumpOptions{Run: func(to *rt.Run) { *to = run }}); err != nil {
			return r, err
		}
		r.bodies = append(r.bodies, b.Bytes())
		total += b.Len()
	}
	fmt.Printf("records of %d runs of %d rows: %d bytes on average\n\n", number, o.rows, total/number)
	return r, nil
}

// spoolRun writes the spool file of a node's run.
func spoolRun(ctx context.Context, dir string, n *node) (path string, err error) {
	running := n.run
	running.Ending = rt.Ending{State: rt.StateRunning}
	w, err := spool.Create(dir, running, n.Host(), spool.Options{})
	if err != nil {
		return "", err
	}
	for s, err := range n.Rates(ctx, 1, int64(n.rows)+1) {
		if err == nil {
			err = w.Put(s)
		}
		if err != nil {
			return "", errors.Join(err, w.Close())
		}
	}
	return w.Path(), w.End(n.run)
}
