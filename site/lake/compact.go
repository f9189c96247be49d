package lake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/apache/iceberg-go/table/compaction"
)

const (
	fewest    = 4              // small files of a partition that are merged
	orphanAge = 24 * time.Hour // of files that no snapshot names before they are removed
)

// Compact merges the small files of each partition, and removes the files that no snapshot names.
func (l *Lake) Compact(ctx context.Context) (done Totals, err error) {
	for _, t := range []*lakeTable{l.samples, l.runs} {
		if err := l.merge(ctx, t, &done); err != nil {
			return done, fmt.Errorf("merge files of the table %s: %w", t.name(), err)
		}
		if err := t.removeOrphans(ctx, orphanAge); err != nil {
			return done, err
		}
	}
	return done, nil
}

func (l *Lake) merge(ctx context.Context, t *lakeTable, done *Totals) error {
	files, err := t.files(ctx, iceberg.AlwaysTrue{})
	if err != nil {
		return err
	}
	slices.Reverse(files) // the first are first: their jobs have the smallest numbers
	c := compaction.DefaultConfig()
	c.TargetFileSizeBytes, c.MinFileSizeBytes, c.MaxFileSizeBytes, c.MinInputFiles = l.FileBytes, l.FileBytes*3/4, l.FileBytes*9/5, fewest
	plan, err := c.PlanCompaction(files)
	if err != nil || len(plan.Groups) == 0 {
		return err
	}
	var groups []table.CompactionTaskGroup
	for _, g := range plan.Groups {
		groups = append(groups, table.CompactionTaskGroup{PartitionKey: g.PartitionKey, Tasks: g.Tasks, TotalSizeBytes: g.TotalSizeBytes})
	}
	tx := t.NewTransaction()
	result, err := tx.RewriteDataFiles(ctx, groups, table.RewriteDataFilesOptions{GroupOptions: []table.CompactionGroupOption{
		table.WithCompactionTargetFileSize(l.FileBytes), table.WithCompactionScanConcurrency(1),
		table.WithCompactionArrowBatchSize(readRows), table.WithCompactionRecordBatchBufferSize(waiting),
	}})
	if err == nil {
		err = l.Check(ctx)
	}
	if err != nil {
		return err
	}
	done.Files += result.AddedDataFiles
	done.Bytes += result.BytesAfter
	return t.commit(ctx, tx)
}
