package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// claimSetting is the name of the setting that has the claims, the newest first, with blanks in between.
const claimSetting = "claims"

// maxClaims is how many claims are kept. The mark of the object store may have an older one: receivers of the
// database renew it at the same time.
const maxClaims = 100

// Claims returns the last claims to the object store, the newest first.
func (r *Settings) Claims(ctx context.Context) ([]string, error) {
	value, err := r.db.setting(ctx, claimSetting)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read the claims to the object store: %w", r.db.fault(err))
	}
	return strings.Fields(string(value)), nil
}

// AddClaim adds a claim if the newest one is as given; empty for none. Otherwise it changes nothing.
func (r *Settings) AddClaim(ctx context.Context, newest, claim string) error {
	return r.db.change(ctx, "store the claim to the object store", func(tx transaction) error {
		var value []byte
		err := tx.QueryRowContext(ctx, "SELECT value FROM setting WHERE name = $1"+r.db.lock, claimSetting).Scan(&value)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		claims := strings.Fields(string(value))
		if append(claims, "")[0] != newest {
			return nil
		}
		claims = append([]string{claim}, claims[:min(len(claims), maxClaims-1)]...)
		query := "UPDATE setting SET value = $1 WHERE name = $2"
		if newest == "" { // another receiver may do the same
			query = "INSERT INTO setting (value, name) VALUES ($1, $2) ON CONFLICT DO NOTHING"
		}
		return execute(ctx, tx, query, []byte(strings.Join(claims, " ")), claimSetting)
	})
}
