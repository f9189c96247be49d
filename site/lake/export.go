package lake

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/resource-tracker/rt/site"
)

// Export writes runs to two Parquet files of their own, in the columns of the tables. create creates a file. Several
// registrations of a run are one run.
func Export(ctx context.Context, decode Decoder, problem func(string, error), runs []site.Changed, create func(table string) (io.WriteCloser, error)) (done Totals, err error) {
	l := &Lake{Config: Config{Decode: decode, Problem: problem}, runs: &lakeTable{}, samples: &lakeTable{}}
	own, err := new(run).columns()
	if err != nil {
		return done, err
	}
	l.runs.schema, err = schemaOf(own.schema())
	if err != nil {
		return done, err
	}
	l.samples.schema, err = schemaOf(new(sample).columns().schema())
	if err != nil {
		return done, err
	}
	r := newReader(l, &done)
	defer r.runRows.Release()
	to := &parquetFiles{create, &done}
	err = to.write("samples", l.samples.schema, r.samples(ctx, byName(runs)))
	if err != nil {
		return done, err
	}
	return done, to.write("runs", l.runs.schema, r.runs)
}

// parquetFiles writes files and counts their bytes.
type parquetFiles struct {
	create func(table string) (io.WriteCloser, error)
	done   *Totals
}

func (f *parquetFiles) write(name string, schema *arrow.Schema, all iter.Seq2[arrow.RecordBatch, error]) error {
	to, err := f.create(name)
	if err != nil {
		return err
	}
	defer to.Close() // after an error
	w, err := pqarrow.NewFileWriter(schema, counting{to, f.done}, parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd)), pqarrow.DefaultWriterProps())
	if err != nil {
		return err
	}
	for rows, err := range all {
		if err != nil {
			return err
		}
		err = w.WriteBuffered(rows)
		rows.Release()
		if err != nil {
			return err
		}
	}
	f.done.Files++
	return errors.Join(w.Close(), to.Close())
}

// counting counts what is written.
type counting struct {
	io.Writer
	done *Totals
}

func (c counting) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.done.Bytes += int64(n)
	return n, err
}

// byName returns the registrations of each run.
func byName(runs []site.Changed) (list []*wanted) {
	known := map[key]*wanted{}
	for _, c := range runs {
		w := known[key{c.Cluster, c.Name}]
		if w == nil {
			w = &wanted{Changed: c}
			known[w.key()] = w
			list = append(list, w)
		}
		w.registrations = append(w.registrations, c)
	}
	for _, w := range list {
		w.sort()
	}
	slices.SortFunc(list, (*wanted).compare)
	return list
}
