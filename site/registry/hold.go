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
func (r *Settings) Hold(ctx context.Context, until time.Time) error {
	return r.db.putTime(ctx, "store the hold", holdSetting, until)
}

// putTime stores a setting that is a time.
func (d *database) putTime(ctx context.Context, what, name string, at time.Time) error {
	return d.execute(ctx, what, putSetting, name, []byte(at.UTC().Format(time.RFC3339Nano)))
}

// Held returns until when objects stay in the object store; zero if there was no Hold.
func (r *Settings) Held(ctx context.Context) (until time.Time, err error) {
	until, err = r.db.timeOf(ctx, holdSetting)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the hold: %w", r.db.fault(err))
	}
	return until, nil
}

// timeOf returns a setting that is a time; zero if there is none.
func (d *database) timeOf(ctx context.Context, name string) (time.Time, error) {
	value, err := d.setting(ctx, name)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return time.Parse(time.RFC3339Nano, string(value))
}
