package registry

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/mattn/go-sqlite3"

	"github.com/resource-tracker/rt/site"
)

// Conditions of PostgreSQL.
const (
	pgDiskFull             = "53100"
	pgSerializationFailure = "40001"
	pgDeadlock             = "40P01"
)

// fault marks the error of a full disk with site.ErrFull.
func fault(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", site.ErrFull, err)
	}
	return err
}

func isFull(err error) bool {
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		noSpace := e.SystemErrno == syscall.ENOSPC || e.SystemErrno == syscall.EDQUOT
		return e.Code == sqlite3.ErrFull || noSpace
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == pgDiskFull
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
