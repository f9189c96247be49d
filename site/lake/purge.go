package lake

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
)

// purgeKey is the property of a table from the removal of rows that must be nowhere to the removal of the earlier snapshots.
const purgeKey = "rt.purge"

// cleanUp removes old snapshots, or all but the current ones if rows must be nowhere.
func (l *Lake) cleanUp(ctx context.Context) error {
	for _, t := range []*lakeTable{l.samples, l.runs} {
		clean := l.expire
		if l.isPurged || t.Properties()[purgeKey] != "" {
			clean = l.purge
		}
		if err := clean(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// expire removes the snapshots that are older than the property history.expire.max-snapshot-age-ms of the table says, but
// not their files, which Compact or purge removes. iceberg-go would fail if an earlier call had removed a file that a
// manifest still names as replaced.
func (l *Lake) expire(ctx context.Context, t *lakeTable) error {
	tx := t.NewTransaction()
	if err := tx.ExpireSnapshots(table.WithPostCommit(false)); err != nil {
		return fmt.Errorf("expire the snapshots of the table %s: %w", t.name(), err)
	}
	return t.commit(ctx, tx)
}

// purge removes all that a table has but the current snapshot, and the files that only other snapshots name. An engine may
// be about to commit the files that no snapshot names.
func (l *Lake) purge(ctx context.Context, t *lakeTable) error {
	if t.CurrentSnapshot() == nil {
		return nil
	}
	// A manifest names the files that its snapshot has removed, and their smallest and largest values. The
	// next snapshot does not have such a manifest.
	tx := t.NewTransaction()
	whole := table.WithRewriteManifestClusterBy(func(iceberg.DataFile) any { return 0 })
	_, err := tx.RewriteManifests(ctx, whole)
	if err == nil {
		err = t.commit(ctx, tx)
	}
	before := *t.Table
	if err == nil {
		err = l.keepCurrent(ctx, t)
	}
	if err == nil {
		err = t.removeFilesOf(ctx, before)
	}
	if err != nil {
		return fmt.Errorf("remove the earlier snapshots of the table %s: %w", t.name(), err)
	}
	return nil
}

// removeFilesOf removes the files that an earlier state of the table names and the present one does not.
func (t *lakeTable) removeFilesOf(ctx context.Context, before table.Table) error {
	now := table.WithFilesOlderThan(0)
	plan, err := t.PlanOrphanFiles(ctx, now)
	if err != nil {
		return err
	}
	unnamed, err := before.PlanOrphanFiles(ctx, now) // after the plan: it has all new files of engines that the plan has
	if err != nil {
		return err
	}
	store, err := t.FS(ctx)
	stay := unnamed.Files()
	for _, path := range plan.Files() {
		if err == nil && !slices.Contains(stay, path) {
			err = store.Remove(path)
		}
	}
	return err
}

// keepCurrent removes all snapshots but the current one, and the tags and branches of engines, which would keep theirs. If
// it is killed afterwards, Compact removes the files.
func (l *Lake) keepCurrent(ctx context.Context, t *lakeTable) error {
	current, earlier, changes := t.CurrentSnapshot().SnapshotID, []int64{}, []table.Update{}
	for name := range t.Metadata().Refs() {
		if name != table.MainBranch {
			changes = append(changes, table.NewRemoveSnapshotRefUpdate(name))
		}
	}
	for _, s := range t.Metadata().Snapshots() {
		if s.SnapshotID != current {
			earlier = append(earlier, s.SnapshotID)
		}
	}
	changes = append(changes, table.NewRemoveSnapshotsUpdate(earlier, false), table.NewRemovePropertiesUpdate([]string{purgeKey}))
	isSame := []table.Requirement{table.AssertRefSnapshotID(table.MainBranch, &current)}
	_, _, err := l.Catalog.CommitTable(ctx, t.Identifier(), isSame, changes)
	if err == nil {
		err = t.Refresh(ctx)
	}
	if err != nil {
		return err
	}
	return t.hint(ctx)
}

// removeOrphans removes the files that no snapshot names, as a killed writer leaves them.
func (t *lakeTable) removeOrphans(ctx context.Context, age time.Duration) error {
	_, err := t.DeleteOrphanFiles(ctx, table.WithFilesOlderThan(age))
	if err != nil {
		return fmt.Errorf("remove the files that the table %s does not name: %w", t.name(), err)
	}
	return nil
}
