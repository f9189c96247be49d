package lake

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/resource-tracker/rt/site"
)

// files returns the files that may have rows that a filter selects.
func (t *lakeTable) files(ctx context.Context, filter iceberg.BooleanExpression) (list []table.FileScanTask, err error) {
	tasks, err := t.Scan(table.WithRowFilter(filter)).PlanFiles(ctx)
	known := map[string]bool{}
	for _, task := range tasks {
		if path := task.File.FilePath(); !known[path] { // a large file has several tasks
			known[path] = true
			task.Start, task.Length, task.Residual = 0, task.File.FileSizeBytes(), nil
			list = append(list, task)
		}
	}
	return list, err
}

const (
	readRows = 4096 // that are read at once
	waiting  = 2    // batches of rows that wait for the writer: each has some MiB
)

// read reads the rows of files that a filter selects. Without names it reads all columns.
func (t *lakeTable) read(ctx context.Context, files []table.FileScanTask, filter iceberg.BooleanExpression, names ...string) iter.Seq2[arrow.RecordBatch, error] {
	options := []table.ScanOption{table.WithRowFilter(filter), table.WithArrowBatchSize(readRows), table.WithMaxConcurrency(1)}
	if len(names) > 0 {
		options = append(options, table.WithSelectedFields(names...))
	}
	return func(yield func(arrow.RecordBatch, error) bool) {
		_, batches, err := t.Scan(options...).ReadTasks(ctx, files)
		if err != nil {
			yield(nil, err)
			return
		}
		for rows, err := range batches {
			if err != nil {
				err = fmt.Errorf("%w: read a file of the table %s: %w; if it is damaged, restore it from a backup, or start rt-lake rebuild", site.ErrDamaged, t.name(), err)
			}
			if !yield(rows, err) || err != nil {
				return
			}
		}
	}
}

// count reads rows and returns their number.
func count(all iter.Seq2[arrow.RecordBatch, error]) (n int64, err error) {
	for rows, err := range all {
		if err != nil {
			return n, err
		}
		n += rows.NumRows()
		rows.Release()
	}
	return n, nil
}

// write writes rows to new files. No snapshot names the files that a failed or killed writer leaves.
func (t *lakeTable) write(ctx context.Context, limit int64, rows iter.Seq2[arrow.RecordBatch, error]) (files []iceberg.DataFile, err error) {
	written := table.WriteRecords(ctx, t.Table, t.schema, rows, table.WithClusteredWrite(), table.WithTargetFileSize(limit), table.WithRecordBatchBufferSize(waiting))
	for f, err := range written {
		if err != nil {
			return nil, fmt.Errorf("write files of the table %s: %w", t.name(), err)
		}
		files = append(files, f)
	}
	return files, nil
}

// selection selects rows, and the files that may have them.
type selection struct{ files, rows iceberg.BooleanExpression }

// partition is a partition of both tables.
type partition struct {
	cluster string
	month   time.Time // its first moment in UTC
}

func partitionOf(c *site.Changed) partition {
	start := c.Start.UTC()
	return partition{c.Cluster, time.Date(start.Year(), start.Month(), 1, 0, 0, 0, 0, time.UTC)}
}

// selectionsOf returns the rows of runs: a selection of each partition, whose files have one cluster.
func selectionsOf(runs []site.Changed) (list []selection) {
	cluster, started := iceberg.Reference("cluster"), iceberg.Reference("started")
	names := map[partition][]string{}
	for i := range runs {
		p := partitionOf(&runs[i])
		names[p] = append(names[p], runs[i].Name)
	}
	for p, names := range names {
		of := iceberg.BooleanExpression(iceberg.IsNull(cluster))
		if p.cluster != "" {
			of = iceberg.EqualTo(cluster, p.cluster)
		}
		list = append(list, selection{
			files: iceberg.NewAnd(of, iceberg.GreaterThanEqual(started, iceberg.Timestamp(p.month.UnixMicro())),
				iceberg.LessThan(started, iceberg.Timestamp(p.month.AddDate(0, 1, 0).UnixMicro()))),
			rows: iceberg.IsIn(iceberg.Reference("run_name"), names...),
		})
	}
	return list
}

// remove writes the files that have selected rows without these, and returns the number of these.
func (t *lakeTable) remove(ctx context.Context, s selection, limit int64, change *tableChange) (n int64, err error) {
	files, err := t.files(ctx, s.files)
	if err != nil {
		return 0, err
	}
	for i := range files {
		file := files[i : i+1]
		gone, err := count(t.read(ctx, file, s.rows, "run_name"))
		if err != nil {
			return n, err
		}
		if gone == 0 {
			continue
		}
		rest, err := t.write(ctx, limit, t.read(ctx, file, iceberg.NewNot(s.rows)))
		if err != nil {
			return n, err
		}
		n += gone
		change.remove, change.add = append(change.remove, file[0].File), append(change.add, rest...)
	}
	return n, nil
}

// entry is a row, as far as the writer needs it.
type entry struct {
	id            string // empty in samples
	cluster, name string
	started       time.Time
}

// entries passes the rows that a selection has.
func (t *lakeTable) entries(ctx context.Context, s selection, use func(entry)) error {
	files, err := t.files(ctx, s.files)
	if err != nil {
		return err
	}
	names := []string{"cluster", "run_name", "started"}
	if t.schema.HasField("id") {
		names = append(names, "id")
	}
	for rows, err := range t.read(ctx, files, s.rows, names...) {
		if err != nil {
			return err
		}
		text := func(name string, i int) (value string) {
			for _, column := range rows.Schema().FieldIndices(name) {
				value = rows.Column(column).(*array.String).Value(i) // empty if it is null
			}
			return value
		}
		started := rows.Column(rows.Schema().FieldIndices("started")[0]).(*array.Timestamp)
		for i := range int(rows.NumRows()) {
			use(entry{text("id", i), text("cluster", i), text("run_name", i), time.UnixMicro(int64(started.Value(i)))})
		}
		rows.Release()
	}
	return nil
}
