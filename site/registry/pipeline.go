package registry

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/resource-tracker/rt/site"
)

// pipeline is a transaction of PostgreSQL. It sends statements without a result together with the next query or
// with the end of the transaction: an exchange with the server costs as much as several statements.
type pipeline struct {
	conn   *pgx.Conn
	batch  *pgx.Batch
	queued []*queued // the statements of batch
	sent   bool      // whether the server may have a transaction
	err    error     // of a statement: nothing follows it
}

// queued is the result of a statement that is sent later.
type queued struct {
	p      *pipeline
	ctx    context.Context
	tag    pgconn.CommandTag
	isDone bool
}

// LastInsertId implements sql.Result.
func (q *queued) LastInsertId() (int64, error) {
	return 0, errors.New("PostgreSQL has no ids of inserted rows")
}

// RowsAffected implements sql.Result. It sends the statement.
func (q *queued) RowsAffected() (int64, error) {
	if !q.isDone {
		results := q.p.send(q.ctx)
		q.p.end(results)
	}
	return q.tag.RowsAffected(), q.p.err
}

// begin returns a transaction that begins with its first exchange.
func begin(ctx context.Context, conn *pgx.Conn) *pipeline {
	p := &pipeline{conn: conn, batch: &pgx.Batch{}}
	p.queue(ctx, "BEGIN")
	return p
}

func (p *pipeline) queue(ctx context.Context, query string, args ...any) *queued {
	q := &queued{p: p, ctx: ctx}
	p.batch.Queue(query, args...)
	p.queued = append(p.queued, q)
	return q
}

// send sends the statements that wait, and reads the results of those in queued.
func (p *pipeline) send(ctx context.Context) pgx.BatchResults {
	p.sent = true
	results := p.conn.SendBatch(ctx, p.batch)
	for _, q := range p.queued {
		q.isDone = true
		if p.err == nil {
			q.tag, p.err = results.Exec()
		}
	}
	p.batch, p.queued = &pgx.Batch{}, nil
	return results
}

// end reads the rest of an exchange.
func (p *pipeline) end(results pgx.BatchResults) {
	err := results.Close()
	if p.err == nil {
		p.err = err
	}
}

// ExecContext queues a statement.
func (p *pipeline) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if p.err != nil {
		return nil, p.err
	}
	return p.queue(ctx, query, args...), nil
}

// QueryContext sends a query after the statements that wait.
func (p *pipeline) QueryContext(ctx context.Context, query string, args ...any) (rows, error) {
	if p.err != nil {
		return nil, p.err
	}
	p.batch.Queue(query, args...)
	results := p.send(ctx)
	if p.err != nil {
		p.end(results)
		return nil, p.err
	}
	found, err := results.Query()
	if err != nil {
		p.err = err
		p.end(results)
		return nil, err
	}
	return &pipelineRows{found, p, results}, nil
}

// QueryRowContext is QueryContext for one row. Its Scan returns sql.ErrNoRows if there is none.
func (p *pipeline) QueryRowContext(ctx context.Context, query string, args ...any) row {
	found, err := p.QueryContext(ctx, query, args...)
	return pipelineRow{found, err}
}

// pipelineRows are the rows of a query; Close ends its exchange.
type pipelineRows struct {
	pgx.Rows
	p       *pipeline
	results pgx.BatchResults
}

// Close implements rows.
func (r *pipelineRows) Close() error {
	r.Rows.Close()
	r.p.end(r.results)
	return r.p.err
}

// pipelineRow is the first row of a query.
type pipelineRow struct {
	rows rows
	err  error
}

// Scan implements row.
func (r pipelineRow) Scan(to ...any) error {
	if r.err != nil {
		return r.err
	}
	var err error
	if r.rows.Next() {
		err = r.rows.Scan(to...)
	} else {
		err = r.rows.Err()
		if err == nil {
			err = sql.ErrNoRows
		}
	}
	closed := r.rows.Close()
	if err == nil {
		err = closed
	}
	return err
}

// commit sends what waits and ends the transaction. The error is site.ErrUnclear if the transaction may be durable. It is
// not after a statement that the server has refused, and not after an ERROR of COMMIT itself, such as that of a deferred
// constraint. A FATAL one can come when the transaction is durable, for example while COMMIT waits for a standby.
func (p *pipeline) commit(ctx context.Context) error {
	if p.err != nil {
		return errors.Join(p.err, p.rollback(ctx))
	}
	p.batch.Queue("COMMIT")
	results := p.send(ctx)
	isLast := p.err == nil
	var tag pgconn.CommandTag
	if isLast {
		tag, p.err = results.Exec()
	}
	p.end(results)
	refused, isRefused := errors.AsType[*pgconn.PgError](p.err)
	isFatal := isLast && isRefused && refused.SeverityUnlocalized != "ERROR"
	switch {
	case p.err == nil && tag.String() == "COMMIT":
		return nil
	case p.err == nil:
		return fmt.Errorf("the server has rolled back the transaction (%s)", tag)
	case isRefused && !isFatal:
		return errors.Join(p.err, p.rollback(ctx))
	}
	return fmt.Errorf("%w: %w", site.ErrUnclear, errors.Join(p.err, p.rollback(ctx)))
}

// rollbackTime limits a rollback. After it the connection is closed, which has the same effect.
const rollbackTime = 5 * time.Second

// rollback ends a transaction that has failed.
func (p *pipeline) rollback(ctx context.Context) error {
	isOpen := p.sent && !p.conn.IsClosed()
	if !isOpen {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTime)
	defer cancel()
	if _, err := p.conn.Exec(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("roll back: %w", errors.Join(err, p.conn.Close(ctx)))
	}
	return nil
}
