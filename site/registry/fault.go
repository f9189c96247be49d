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
	pgDataCorrupted        = "XX001"
	pgIndexCorrupted       = "XX002"
)

// fault marks the error of a full disk with site.ErrFull, and that of a damaged database with
// site.ErrDamaged.
func fault(err error) error {
	switch {
	case isFull(err):
		return fmt.Errorf("%w: %w", site.ErrFull, err)
	case isDamage(err):
		return fmt.Errorf("%w: %w", site.ErrDamaged, err)
	}
	return err
}

func isDamage(err error) bool {
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		return e.Code == sqlite3.ErrCorrupt || e.Code == sqlite3.ErrNotADB
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == pgDataCorrupted || e.Code == pgIndexCorrupted
	}
	return false
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
