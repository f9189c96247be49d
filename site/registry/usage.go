package registry

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/resource-tracker/rt/site"
)

// rowBytes is what a run and an object count in a quota in addition to their bytes, for their rows
// and indexes.
const rowBytes = 1 << 10

// Usage returns the bytes of the runs of an owner, and of all runs. It counts objects,
// registrations, finishes and records, and 1 KiB for each run and each object.
func (r *Runs) Usage(ctx context.Context, owner string) (own, total int64, err error) {
	err = r.db.read.QueryRowContext(ctx, usage, owner).Scan(&own)
	if err == nil {
		err = r.db.read.QueryRowContext(ctx, usage, "").Scan(&total)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the use of the quota: %w", r.db.fault(err))
	}
	return own, total, nil
}

// usage is the query of the bytes of an owner.
const usage = "SELECT CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM disk_use WHERE owner = $1"

// quotas are the limits of Config, in bytes; 0: none.
type quotas struct {
	all, perOwner int64
	shards        uint32 // rows that share the counter of an owner
}

// charge adds bytes to the use of an owner. It returns site.ErrQuota if they exceed a quota. In
// PostgreSQL transactions at the same time do not see each other's bytes.
func (q *quotas) charge(ctx context.Context, tx transaction, runID, owner string, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(runID))
	const add = " ON CONFLICT (owner, shard) DO UPDATE SET bytes = disk_use.bytes + excluded.bytes"
	query, args := "INSERT INTO disk_use (shard, bytes, owner) VALUES ($1, $2, '')"+add, []any{int64(hash.Sum32() % q.shards), bytes}
	if owner != "" {
		query, args = "INSERT INTO disk_use (shard, bytes, owner) VALUES ($1, $2, ''), ($1, $2, $3)"+add, append(args, owner)
	}
	if err := execute(ctx, tx, query, args...); err != nil {
		return err
	}
	if bytes < 0 {
		return nil
	}
	for _, quota := range []struct {
		limit int64
		owner string
		text  string
	}{{q.perOwner, owner, "the runs of this token take %d of %d bytes (serve.token_quota)"}, {q.all, "", "the runs take %d of %d bytes (serve.quota)"}} {
		isNone := quota.limit == 0 || quota.owner != owner && quota.owner != ""
		if isNone {
			continue
		}
		var used int64
		err := tx.QueryRowContext(ctx, usage, quota.owner).Scan(&used)
		if err != nil {
			return err
		}
		if used > quota.limit {
			return fmt.Errorf("%w: "+quota.text, site.ErrQuota, used-bytes, quota.limit)
		}
	}
	return nil
}
