package lake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"
	icebergio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
)

// namespace is the namespace of the tables in the catalog.
const namespace = "rt"

// lakeTable is a table, and the columns of its files.
type lakeTable struct {
	*table.Table
	schema *arrow.Schema
}

// measured are the columns whose smallest and largest value in each file the metadata has.
var measured = []string{"cluster", "started", "job_id", "time"}

// groupRows is the number of rows of a row group.
const groupRows = 64 << 10

// properties are the properties of a new table. Engines that change it use the same compression, and leave no files with
// deletions, which this writer would have to apply.
func properties(own *columns) iceberg.Properties {
	p := iceberg.Properties{
		table.ParquetCompressionKey: "zstd", table.ParquetCompressionLevelKey: "3", table.ParquetRowGroupLimitKey: strconv.Itoa(groupRows),
		table.ManifestMergeEnabledKey: "true",
		table.WriteDeleteModeKey:      table.WriteModeCopyOnWrite, "write.update.mode": table.WriteModeCopyOnWrite, "write.merge.mode": table.WriteModeCopyOnWrite,
		table.MetadataDeleteAfterCommitEnabledKey: "true", table.MetadataPreviousVersionsMaxKey: "10",
		table.DefaultWriteMetricsModeKey: "counts",
	}
	for _, name := range measured {
		p[table.MetricsModeColumnConfPrefix+"."+name] = "full"
	}
	for _, c := range own.list {
		if c.isCounter { // its values do not repeat
			p["write.parquet.dict-encoding-enabled.column."+c.name] = "false"
		}
	}
	return p
}

// openTable opens a table, creates it, or adds the columns that it lacks.
func (l *Lake) openTable(ctx context.Context, name string, own *columns) (t *lakeTable, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the table %s: %w", name, err)
		}
	}()
	ident, location := table.Identifier{namespace, name}, strings.TrimRight(l.Warehouse, "/")+"/"+name
	if c, is := l.Catalog.(*siteCatalog); is { // a backup of its database may have been restored
		err = c.followHint(ctx, name, location+"/metadata/")
		if err != nil {
			return nil, fmt.Errorf("look for the last metadata: %w", err)
		}
	}
	t = &lakeTable{}
	t.Table, err = l.Catalog.LoadTable(ctx, ident)
	if errors.Is(err, catalog.ErrNoSuchTable) {
		t.Table, err = l.createTable(ctx, ident, location, own)
	}
	if err != nil {
		return nil, err
	}
	tx := t.NewTransaction()
	err = tx.UpdateSchema(true, false).UnionByNameWith(own.schema()).Commit()
	if err == nil {
		err = t.commit(ctx, tx)
	}
	if err != nil {
		return nil, fmt.Errorf("add columns: %w", err)
	}
	t.schema, err = schemaOf(t.Schema())
	return t, err
}

// schemaOf returns the columns of files with a schema.
func schemaOf(s *iceberg.Schema) (*arrow.Schema, error) {
	return table.SchemaToArrowSchema(s, nil, true, false)
}

// createTable creates a table: partitions by cluster and the month of the start, in the order of jobs and time.
func (l *Lake) createTable(ctx context.Context, ident table.Identifier, location string, own *columns) (*table.Table, error) {
	schema := own.schema()
	id := func(name string) int {
		f, _ := schema.FindFieldByName(name)
		return f.ID
	}
	spec := iceberg.NewPartitionSpec(
		iceberg.PartitionField{SourceIDs: []int{id("cluster")}, FieldID: 1000, Name: "cluster", Transform: iceberg.IdentityTransform{}},
		iceberg.PartitionField{SourceIDs: []int{id("started")}, FieldID: 1001, Name: "started_month", Transform: iceberg.MonthTransform{}},
	)
	var fields []table.SortField
	for _, name := range []string{"job_id", "started", "run_name", "seq"} {
		if _, isThere := schema.FindFieldByName(name); isThere {
			fields = append(fields, table.SortField{SourceIDs: []int{id(name)}, Transform: iceberg.IdentityTransform{}, Direction: table.SortASC, NullOrder: table.NullsLast})
		}
	}
	order, err := table.NewSortOrder(1, fields)
	if err != nil {
		return nil, err
	}
	return l.Catalog.CreateTable(ctx, ident, schema, catalog.WithLocation(location),
		catalog.WithPartitionSpec(&spec), catalog.WithSortOrder(order), catalog.WithProperties(properties(own)))
}

// commit commits a transaction.
func (t *lakeTable) commit(ctx context.Context, tx *table.Transaction) error {
	next, err := tx.Commit(ctx)
	if err != nil {
		return fmt.Errorf("commit to the table %s: %w", t.name(), err)
	}
	t.Table = next
	return t.hint(ctx)
}

func (t *lakeTable) name() string { return strings.Join(t.Identifier(), ".") }

// parent returns the snapshot before a snapshot, or nil.
func (t *lakeTable) parent(s *table.Snapshot) *table.Snapshot {
	if s.ParentSnapshotID == nil {
		return nil
	}
	return t.SnapshotByID(*s.ParentSnapshotID)
}

// The file that names the last metadata, and the end of the names of these.
const hintName, metadataSuffix = "version-hint.text", ".metadata.json"

// hint names the last metadata in a file, for readers without the catalog, and for a restored catalog.
func (t *lakeTable) hint(ctx context.Context) error {
	fs, err := t.FS(ctx)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(path.Base(t.MetadataLocation()), metadataSuffix)
	return fs.(icebergio.WriteFileIO).WriteFile(t.Location()+"/metadata/"+hintName, []byte(name))
}

// tableChange is files that take the place of others, in one snapshot.
type tableChange struct{ remove, add []iceberg.DataFile }

func (c *tableChange) isEmpty() bool { return len(c.remove)+len(c.add) == 0 }

// replace commits a change, with properties of the table and of its snapshot.
func (t *lakeTable) replace(ctx context.Context, c *tableChange, of iceberg.Properties) error {
	tx := t.NewTransaction()
	err := tx.SetProperties(of)
	if err == nil && !c.isEmpty() {
		err = tx.ReplaceDataFilesWithDataFiles(ctx, c.remove, c.add, maps.Clone(of), table.WithoutAutoNameMapping(), table.WithoutDuplicateCheck())
	}
	if err != nil {
		return fmt.Errorf("change the table %s: %w", t.name(), err)
	}
	return t.commit(ctx, tx)
}
