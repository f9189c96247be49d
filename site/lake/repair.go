package lake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/apache/iceberg-go"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"

	"github.com/resource-tracker/rt/site"
)

// Repair takes the files that are absent or damaged out of the tables, for a rebuild, and says why. It deletes no file. If
// a file cannot be read for another reason, the tables stay: the site may have its runs no more. Samples of runs that are
// not in runs leave.
func (l *Lake) Repair(ctx context.Context) (lost []error, err error) {
	change := &exchange{}
	for t, of := range l.changes(change) {
		files, err := t.files(ctx, iceberg.AlwaysTrue{})
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			damage, err := t.damageOf(ctx, f)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", f.File.FilePath(), err)
			}
			if damage != nil {
				lost, of.remove = append(lost, fmt.Errorf("%s: %w", f.File.FilePath(), damage)), append(of.remove, f.File)
			}
		}
	}
	if err := l.apply(ctx, change); err != nil {
		return nil, err
	}
	return lost, l.removeStrays(ctx, l.runs.Properties()[batchKey])
}

// removeStrays removes the samples of runs that are not in runs. The next pass replaces the samples of the other runs of
// the same batch.
func (l *Lake) removeStrays(ctx context.Context, batch string) error {
	all, known, strays := selection{iceberg.AlwaysTrue{}, iceberg.AlwaysTrue{}}, map[key]bool{}, []site.Changed(nil)
	err := l.runs.entries(ctx, all, func(e entry) { known[key{e.cluster, e.name}] = true })
	if err != nil {
		return err
	}
	err = l.samples.entries(ctx, all, func(e entry) {
		if k := (key{e.cluster, e.name}); !known[k] {
			known[k] = true
			strays = append(strays, site.Changed{Cluster: e.cluster, Name: e.name, Start: e.started})
		}
	})
	if err != nil {
		return err
	}
	change := &exchange{}
	if err := l.removeRuns(ctx, strays, change); err != nil {
		return err
	}
	return l.samples.replace(ctx, &change.samples, iceberg.Properties{batchKey: batch})
}

// damageOf returns why a file is absent or cannot be parsed. err says nothing about the file.
func (t *lakeTable) damageOf(ctx context.Context, f table.FileScanTask) (damage, err error) {
	_, damage = count(t.read(ctx, []table.FileScanTask{f}, iceberg.AlwaysTrue{}))
	if damage == nil {
		return nil, nil
	}
	store, err := t.FS(ctx)
	if err != nil {
		return nil, err
	}
	content, err := store.(icebergio.ReadFileIO).ReadFile(f.File.FilePath())
	if isAbsent(err) {
		return damage, nil
	}
	if err != nil {
		return nil, err
	}
	memory := icebergio.NewMemFS() // which has no errors of its own
	if err := memory.WriteFile(f.File.FilePath(), content); err != nil {
		return nil, err
	}
	open := func(context.Context) (icebergio.IO, error) { return memory, nil }
	inMemory := &lakeTable{table.New(t.Identifier(), t.Metadata(), t.MetadataLocation(), open, nil), t.schema}
	_, damage = count(inMemory.read(ctx, []table.FileScanTask{{File: f.File, Length: f.Length}}, iceberg.AlwaysTrue{}))
	return damage, ctx.Err()
}

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
