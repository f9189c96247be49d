package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site/api"
)

// claim gives the object store to this copy of the database, such as after a restore. Objects that
// it does not name stay for the longest hold: perhaps the backup was the wrong one. Sessions and shares of the copy end,
// because they may have been revoked after it was made.
func claim(ctx context.Context, o *options, stdout, _ io.Writer) (err error) {
	st, err := o.open(ctx, sitestores.OpenAny)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	until := time.Now().Add(maxHold)
	if err := st.Registry.Settings.Hold(ctx, until); err != nil {
		return err
	}
	if err := api.Claim(ctx, st.Registry, st.Objects); err != nil {
		return sitestores.NotOwner(err)
	}
	if err := st.Registry.Sessions.RevokeAll(ctx); err != nil {
		return err
	}
	if err := st.Registry.Settings.Audit(ctx, operator(), "has claimed the object store"); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "the object store is that of this database; objects that it does not name stay until %s (rt-site hold)\n", until.Format(time.RFC3339))
	return nil
}
