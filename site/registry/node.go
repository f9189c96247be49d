package registry

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

const (
	// maxNodes is the largest number of nodes of one owner.
	maxNodes = 20_000
	// keepNode is how long the last report of a node stays.
	keepNode = 90 * 24 * time.Hour
)

// Nodes has the last report of each node.
type Nodes struct{ db *database }

// Put stores the report of a node, which arrived at a time, in the place of an earlier report of the
// same owner. The error is site.ErrQuota if the owner has as many nodes as it may have.
func (r *Nodes) Put(ctx context.Context, owner string, n site.NodeState, at time.Time) error {
	state, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("store the report of node %s: %w", n.Node, err)
	}
	args := []any{n.Cluster, n.Node, owner, micros(at), optMicros(n.LastSuccess), optional[int64]{&n.UndeliveredRuns}, state}
	return r.db.change(ctx, "store the report of node "+n.Node, func(tx transaction) error {
		done, err := tx.ExecContext(ctx, `UPDATE node SET reported = $4, drained = $5, waiting = $6, state = $7
			WHERE cluster = $1 AND node = $2 AND owner = $3`, args...)
		if err != nil {
			return err
		}
		if changed, err := done.RowsAffected(); err != nil || changed > 0 {
			return err
		}
		if err := execute(ctx, tx, "DELETE FROM node WHERE reported < $1", micros(at.Add(-keepNode))); err != nil {
			return err
		}
		var nodes int64
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM node WHERE owner = $1", owner).Scan(&nodes); err != nil {
			return err
		}
		if nodes >= maxNodes {
			return fmt.Errorf("%w: this token has reported %d nodes in %d days", site.ErrQuota, nodes, int(keepNode.Hours()/24))
		}
		return execute(ctx, tx, `INSERT INTO node (cluster, node, owner, reported, drained, waiting, state)
			VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (cluster, node, owner)
			DO UPDATE SET reported = excluded.reported, drained = excluded.drained, waiting = excluded.waiting, state = excluded.state`, args...)
	})
}

// List returns the nodes that a filter selects, sorted by cluster, name and owner, at most limit
// of them. It also returns the cursor of the next call, which is empty at the end of the list. The
// cursor of the first call is empty; site.ErrCursor means that the cursor is not from List.
func (r *Nodes) List(ctx context.Context, f site.NodeFilter, after string, limit int) (nodes []site.Node, next string, err error) {
	limit = max(limit, 1)
	var c conditions
	if after != "" {
		from, err := parseNodeCursor(after)
		if err != nil {
			return nil, "", fmt.Errorf("list the nodes: %w", err)
		}
		c.addCondition("(cluster, node, owner) > (?, ?, ?)", from[0], from[1], from[2])
	}
	if f.Cluster != "" {
		c.addCondition("cluster = ?", f.Cluster)
	}
	if f.Node != "" {
		c.addCondition("node = ?", f.Node)
	}
	query := "SELECT owner, reported, state FROM node" + c.clause() + " ORDER BY cluster, node, owner LIMIT " + c.value(limit+1)
	nodes, err = list(ctx, r.db, "list the nodes", scanNode, query, c.args...)
	if err != nil {
		return nil, "", err
	}
	if len(nodes) > limit {
		nodes = nodes[:limit]
		last := nodes[limit-1]
		next = fmt.Sprintf("%x.%x.%x", last.Cluster, last.Node, last.Owner)
	}
	return nodes, next, nil
}

// nodeCursors matches cursors: cluster, name and owner in hexadecimal. The description of the API has the
// same expression.
var nodeCursors = regexp.MustCompile(`^([0-9a-f]{2}){0,128}\.([0-9a-f]{2}){1,128}\.([0-9a-f]{2}){1,64}$`)

func parseNodeCursor(text string) (from [3]string, err error) {
	if !nodeCursors.MatchString(text) {
		return from, site.ErrCursor
	}
	var errs [3]error
	for i, part := range strings.Split(text, ".") {
		var b []byte
		b, errs[i] = hex.DecodeString(part)
		from[i] = string(b)
	}
	return from, errors.Join(errs[:]...)
}

func scanNode(scan scanFunc) (n site.Node, err error) {
	var reported int64
	var state []byte
	if err := scan(&n.Owner, &reported, &state); err != nil {
		return n, err
	}
	if err := json.Unmarshal(state, &n.NodeState); err != nil {
		return n, fmt.Errorf("%w: the state of a node: %w", site.ErrDamaged, err)
	}
	n.Reported = moment(reported)
	return n, nil
}

// Ages returns the age of the deliveries of all nodes, in no order.
func (r *Nodes) Ages(ctx context.Context) ([]site.NodeAge, error) {
	return list(ctx, r.db, "read the ages of the nodes", func(scan scanFunc) (a site.NodeAge, err error) {
		var reported int64
		var drained sql.NullInt64
		err = scan(&reported, &drained, optional[int64]{&a.Undelivered})
		a.Reported = moment(reported)
		if drained.Valid {
			a.LastSuccess = rt.Some(moment(drained.Int64))
		}
		return a, err
	}, "SELECT reported, drained, waiting FROM node")
}

func optMicros(at rt.Opt[time.Time]) (out sql.NullInt64) {
	if at, ok := at.Get(); ok {
		out = sql.NullInt64{Int64: micros(at), Valid: true}
	}
	return out
}
