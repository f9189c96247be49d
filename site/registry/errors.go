package registry

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
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
	pgTooManyConns         = "53300"
	pgConnectionClass      = "08"
	pgShutdownClass        = "57P" // it stops, has crashed, or starts
)

// fault marks the error of a full disk with site.ErrFull, and of a damaged database with
// site.ErrDamaged. If a database does not answer, the mark is site.ErrAway.
func fault(err error) error {
	switch {
	case isFull(err):
		return fmt.Errorf("%w: %w", site.ErrFull, err)
	case isDamage(err):
		return fmt.Errorf("%w: %w", site.ErrDamaged, err)
	case isAway(err):
		return fmt.Errorf("%w: %w", site.ErrAway, err)
	}
	return err
}

// fault is the function fault, and reports an error of the database itself to Config.Failed.
func (d *database) fault(err error) error {
	err = fault(err)
	kind := kindOf(err)
	if kind != "" && d.failed != nil {
		d.failed(kind)
	}
	return err
}

// kindOf names what is wrong with a database; empty for an error that is not one of the database.
func kindOf(err error) string {
	_, isSQLite := errors.AsType[sqlite3.Error](err)
	_, isPostgres := errors.AsType[*pgconn.PgError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case errors.Is(err, site.ErrFull):
		return "full"
	case errors.Is(err, site.ErrDamaged):
		return "damaged"
	case errors.Is(err, site.ErrAway):
		return "away"
	case isSQLite, isPostgres, errors.Is(err, site.ErrUnclear):
		return "other"
	}
	return ""
}

// isAway reports whether the connection to the database is lost or cannot be made. It is also true
// if another process holds the lock of a SQLite file for long.
func isAway(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		return e.Code == sqlite3.ErrBusy
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code == pgTooManyConns || strings.HasPrefix(e.Code, pgConnectionClass) || strings.HasPrefix(e.Code, pgShutdownClass)
	}
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || pgconn.SafeToRetry(err)
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
