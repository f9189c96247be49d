package registry

import "context"

// Exec makes a change that no method makes, for tests outside of this package.
func (r *Registry) Exec(ctx context.Context, query string, args ...any) error {
	return r.db.change(ctx, "test", func(tx transaction) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

// Fill makes jobs of 2,000 users in 200 accounts with 250,000 different names, one a minute from an instant in
// microseconds on. The last ten are running. Each has a run.
const Fill = `WITH RECURSIVE n(i) AS (SELECT CAST(1 AS BIGINT) UNION ALL SELECT i + 1 FROM n WHERE i < %[1]d)
	INSERT INTO job (cluster, job_id, family, username, account, partition, name, state, outcome, started, ended, updated, core_secs, core_used, waste)
	SELECT 'cluster', i, i - i %% 10, 'user' || ((i * 7919) %% 2000), 'account' || ((i * 7919) %% 200), CASE WHEN i %% 1000 = 0 THEN 'debug' ELSE 'batch' END,
		'step_' || (i %% 7) || '_of_case_' || ((i * 31) %% 250000), CASE WHEN i > %[1]d - 10 THEN 'running' ELSE 'ended' END,
		CASE WHEN i > %[1]d - 10 THEN '' WHEN i %% 5003 = 0 THEN 'oom' WHEN i %% 10 = 0 THEN 'failed' ELSE 'finished' END,
		%[2]d + 60000000 * i, CASE WHEN i > %[1]d - 10 THEN NULL ELSE %[2]d + 60000000 * i + 1000000 * (i %% 86400) END, 0,
		3600.0 * (i %% 64), 36.0 * (i %% 64) * (i %% 100), CASE WHEN i > %[1]d - 10 THEN -1 ELSE (i * 7919) %% 100003 END FROM n`

const FillRuns = `INSERT INTO run (id, owner, created, charged, finished, cluster, job_id, generation, attempt, state, outcome, accounted, started, ended, node, stem, metadata, record)
	SELECT '20260301t120000-' || job_id, 'owner', started, 3000, started, cluster, job_id, generation, 0, state, outcome, 1, started, ended, 'n' || (job_id % 1000), 'job-' || job_id, $1, $2 FROM job`
