package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/resource-tracker/rt/site"
)

// maxChecked is the largest number of problems of one kind that Check returns.
const maxChecked = 100

// Check returns what is wrong with the database: what the integrity check of SQLite finds, and rows
// that do not agree with each other. Receivers may change the database at the same time. Check does
// not look at the runs one by one.
func (r *Registry) Check(ctx context.Context) (problems []string, err error) {
	for _, check := range []struct{ problem, query string }{
		{"the database file is damaged: %s", r.db.integrity},
		{"object %s has no run", "SELECT o.run_id || '/' || o.name FROM object o WHERE NOT EXISTS (SELECT 1 FROM run r WHERE r.id = o.run_id)"},
		{"run %s has another number of objects than its row says", "SELECT r.id FROM run r WHERE r.objects <> (SELECT count(*) FROM object o WHERE o.run_id = r.id)"},
		{"run %s has no job", `SELECT r.id FROM run r WHERE r.job_id IS NOT NULL AND
			NOT EXISTS (SELECT 1 FROM job j WHERE j.cluster = r.cluster AND j.job_id = r.job_id AND j.generation = r.generation)`},
		{"job %s has no run", `SELECT j.cluster || ':' || j.job_id FROM job j WHERE
			NOT EXISTS (SELECT 1 FROM run r WHERE r.cluster = j.cluster AND r.job_id = j.job_id AND r.generation = j.generation) AND
			NOT EXISTS (SELECT 1 FROM live l WHERE l.cluster = j.cluster AND l.job_id = j.job_id AND l.generation = j.generation)`},
		{"the use of a quota is wrong: %s", wrongQuotas},
	} {
		if check.query == "" {
			continue
		}
		found, err := collect(ctx, r.db.read, scanText, check.query+fmt.Sprintf(" LIMIT %d", maxChecked))
		err = r.db.fault(err)
		if errors.Is(err, site.ErrDamaged) {
			found, err = append(found, err.Error()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("check the registry: %w", err)
		}
		for _, one := range found {
			if one != "ok" {
				problems = append(problems, fmt.Sprintf(check.problem, strings.TrimSpace(one)))
			}
		}
	}
	return problems, nil
}

// wrongQuotas compares the counters of the quotas with what they count, in one statement, so that
// changes at the same time do no harm.
var wrongQuotas = fmt.Sprintf(`SELECT 'owner "' || owner || '" has ' || CAST(sum(due) AS BIGINT) || ' bytes, and ' || CAST(sum(used) AS BIGINT) || ' are counted' FROM (
	SELECT owner, bytes AS used, 0 AS due FROM disk_use
	UNION ALL SELECT owner, 0, charged FROM run
	UNION ALL SELECT '', 0, charged FROM run WHERE owner <> ''
	UNION ALL SELECT r.owner, 0, o.bytes + %[1]d FROM object o JOIN run r ON r.id = o.run_id
	UNION ALL SELECT '', 0, o.bytes + %[1]d FROM object o JOIN run r ON r.id = o.run_id WHERE r.owner <> ''
) x GROUP BY owner HAVING sum(due) <> sum(used)`, rowBytes)
