package registry

import (
	"fmt"
	"testing"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

func state(cluster, node string) site.NodeState {
	return site.NodeState{
		Cluster: cluster, Node: node, Time: start, Version: "1.0", UndeliveredRuns: rt.Some[int64](3), LastSuccess: rt.Some(start.Add(-time.Hour)),
	}
}

// allNodes reads the nodes of a filter in pages of two.
func allNodes(t *testing.T, r *Registry, f site.NodeFilter) (nodes []site.Node) {
	t.Helper()
	after := ""
	for {
		some, next, err := r.Nodes.List(t.Context(), f, after, 2)
		is(t, "Nodes", err, nil)
		nodes = append(nodes, some...)
		if next == "" {
			return nodes
		}
		after = next
	}
}

// A report replaces an earlier one of the same owner only.
func TestNodes(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, again func() *Registry) {
		for _, of := range []struct{ owner, cluster, node string }{
			{"main", "b", "n1"}, {"main", "a", "n2"}, {"main", "a", "n1"}, {"other", "a", "n1"}, {"main", "", "n1"}, {"main", "a", "n1"},
		} {
			is(t, "PutNode", r.Nodes.Put(t.Context(), of.owner, state(of.cluster, of.node), start), nil)
		}
		later := state("a", "n1")
		later.LastSuccess, later.UndeliveredRuns, later.HooksDisabled = rt.None[time.Time](), rt.None[int64](), rt.Some(true)
		is(t, "PutNode", r.Nodes.Put(t.Context(), "main", later, start.Add(time.Hour)), nil)

		want := []site.Node{
			{NodeState: state("", "n1"), Owner: "main", Reported: start},
			{NodeState: later, Owner: "main", Reported: start.Add(time.Hour)},
			{NodeState: state("a", "n1"), Owner: "other", Reported: start},
			{NodeState: state("a", "n2"), Owner: "main", Reported: start},
			{NodeState: state("b", "n1"), Owner: "main", Reported: start},
		}
		same(t, "all nodes", allNodes(t, again(), site.NodeFilter{}), want)
		same(t, "one node", allNodes(t, r, site.NodeFilter{Cluster: "a", Node: "n1"}), want[1:3])
		ages, err := r.Nodes.Ages(t.Context())
		is(t, "NodeAges", err, nil)
		unknown := 0
		for _, a := range ages {
			if !a.LastSuccess.Valid() && !a.Undelivered.Valid() && a.Reported.Equal(start.Add(time.Hour)) {
				unknown++
			} else if a.LastSuccess != rt.Some(start.Add(-time.Hour)) || a.Undelivered != rt.Some[int64](3) {
				t.Errorf("%+v", a)
			}
		}
		if len(ages) != 5 || unknown != 1 {
			t.Errorf("%d ages, %d of them unknown", len(ages), unknown)
		}
		for _, cursor := range []string{"x", "61.6e31", "61.6e31.6d.6d", "61..6d", "6.6e31.6d", "61.6e31.6D"} {
			_, _, err := r.Nodes.List(t.Context(), site.NodeFilter{}, cursor, 2)
			is(t, "Nodes after "+cursor, err, site.ErrCursor)
		}
	})
}

// An owner has a bounded number of nodes, and reports that are not repeated disappear.
func TestNodesAreBounded(t *testing.T) {
	each(t, Config{}, func(t *testing.T, r *Registry, _ func() *Registry) {
		is(t, "fill", r.db.change(t.Context(), "fill", func(tx transaction) error {
			for n := range maxNodes {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO node (cluster, node, owner, reported, state) VALUES ('c', $1, 'main', $2, $3)",
					fmt.Sprint("n", n), micros(start), []byte("{}"))
				if err != nil {
					return err
				}
			}
			return nil
		}), nil)
		is(t, "one more", r.Nodes.Put(t.Context(), "main", state("c", "new"), start.Add(keepNode)), site.ErrQuota)
		is(t, "a known one", r.Nodes.Put(t.Context(), "main", state("c", "n7"), start.Add(keepNode+time.Hour)), nil)
		is(t, "another owner's", r.Nodes.Put(t.Context(), "other", state("c", "new"), start.Add(keepNode)), nil)
		is(t, "later", r.Nodes.Put(t.Context(), "main", state("c", "new"), start.Add(keepNode+time.Second)), nil)
		if nodes := allNodes(t, r, site.NodeFilter{}); len(nodes) != 3 {
			t.Errorf("%d nodes", len(nodes))
		}
	})
}
