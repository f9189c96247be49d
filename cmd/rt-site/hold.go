package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/registry"
)

// maxHold limits a hold: an object store that grows for longer is a mistake.
const maxHold = 7 * 24 * time.Hour

// hold keeps objects that are replaced or removed in the object store for a time, for a backup. It makes a new
// claim to the object store, so that a copy of the database from before has an old one.
func hold(ctx context.Context, o *options, stdout, _ io.Writer) (err error) {
	isWrong := !o.isSet("for") || o.hold < 0 || o.hold > maxHold
	if isWrong {
		return cli.Usage("hold needs --for and a duration from 0s to 168h; see rt-site --help")
	}
	st, err := o.open(ctx, sitestores.OpenOwned)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	until := time.Now().Add(o.hold)
	if err := st.Registry.Settings.Hold(ctx, until); err != nil {
		return err
	}
	if o.hold == 0 {
		fmt.Fprintln(stdout, "objects that are replaced or removed are deleted at once")
		return nil
	}
	fmt.Fprintf(stdout, "objects that are replaced or removed stay in the object store until %s\n", until.Format(time.RFC3339))
	return nil
}

// heldObjects deletes no object during a hold. A receiver removes these objects later, as those that no
// run names.
type heldObjects struct {
	site.ObjectStore
	settings *registry.Settings
}

// Delete implements site.ObjectStore. The row that named the object is gone. A copy of the database
// that still has the row was made before the hold or during it.
func (h heldObjects) Delete(ctx context.Context, name string) error {
	until, err := h.settings.Held(ctx)
	isHeld := err == nil && time.Now().Before(until)
	if err != nil || isHeld {
		return err
	}
	return h.ObjectStore.Delete(ctx, name)
}
