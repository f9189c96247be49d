package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// holdSetting is the name of the setting that Hold stores.
const holdSetting = "hold"

// Hold keeps replaced and removed objects in the object store until a time. So a copy of the
// database and a later copy of the object store fit together. All receivers of the database obey
// it.
func (r *Registry) Hold(ctx context.Context, until time.Time) error {
	return r.putTime(ctx, "store the hold", holdSetting, until)
}

// putTime stores a setting that is a time.
func (r *Registry) putTime(ctx context.Context, what, name string, at time.Time) error {
	value := []byte(at.UTC().Format(time.RFC3339Nano))
	return r.change(ctx, what, func(tx transaction) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value)
		return err
	})
}

// Held returns until when objects stay in the object store; zero if there was no Hold.
func (r *Registry) Held(ctx context.Context) (until time.Time, err error) {
	until, err = r.timeOf(ctx, holdSetting)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the hold: %w", r.fault(err))
	}
	return until, nil
}

// timeOf returns a setting that is a time; zero if there is none.
func (r *Registry) timeOf(ctx context.Context, name string) (time.Time, error) {
	value, err := r.secret(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, string(value))
}
