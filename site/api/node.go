package api

import (
	"encoding/json"
	"net/http"
	"regexp"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/site"
)

// nodesPath is the path of the reports of nodes.
const nodesPath = "nodes"

// maxNodeReport is the size of a report of a node, in bytes.
const maxNodeReport = 16 << 10

// What names and versions in reports may be.
var (
	nameOfNode    = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)
	nameOfCluster = regexp.MustCompile(`^[A-Za-z0-9._-]{0,128}$`)
	versionOfNode = regexp.MustCompile(`^[A-Za-z0-9.+~_-]{0,64}$`)
)

// serveReport answers a report that a node sends with the token with which it delivers runs.
func (s *receiver) serveReport(w http.ResponseWriter, r *http.Request, owner string, limit int64, put func(w http.ResponseWriter, t turn, body []byte) error) error {
	leave, err := takeUnits(r.Context(), s.bodies.limits.open, owner, 1)
	if err != nil {
		return err
	}
	defer leave()
	if r.Method != http.MethodPut {
		w.Header().Set("Allow", http.MethodPut)
		return refuse(http.StatusMethodNotAllowed, "only PUT is possible here")
	}
	if site.IsOwnerOfUser(owner) {
		return refuse(http.StatusForbidden, "the token of a user does not report the state of a node")
	}
	t := turn{r.Context(), owner, s.bodies.limits.cpu}
	return s.bodies.withBody(w, r, owner, limit, func(body []byte) error { return put(w, t, body) })
}

// putNode answers PUT /nodes with the state of a node.
func (s *receiver) putNode(w http.ResponseWriter, t turn, body []byte) error {
	n, err := parseNode(body)
	if err != nil {
		return err
	}
	if err := s.conf.Registry.Nodes.Put(t.ctx, t.client, n, time.Now().UTC()); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// parseNode parses and checks a report. Fields that are not known are ignored: a newer node sends them.
func parseNode(body []byte) (n site.NodeState, err error) {
	if err := json.Unmarshal(body, &n); err != nil {
		return n, refuse(http.StatusBadRequest, "this is not the report of a node: %v", err)
	}
	isNamed := nameOfNode.MatchString(n.Node) && nameOfCluster.MatchString(n.Cluster)
	switch {
	case !isNamed:
		return n, refuse(http.StatusUnprocessableEntity, "node and cluster must have at most 128 letters, digits, \".\", \"_\" and \"-\", and node at least one")
	case !versionOfNode.MatchString(n.Version):
		return n, refuse(http.StatusUnprocessableEntity, "version must have at most 64 letters, digits, \".\", \"+\", \"~\", \"_\" and \"-\"")
	}
	for _, number := range []rt.Opt[int64]{
		n.Schema, n.Trackers, n.UndeliveredRuns, n.UndeliveredBytes, n.Unreadable, n.FailedDrains, n.Delivered, n.Lost,
		n.HookFailures, n.SpoolBytes, n.SpoolLimit, n.DiskBytes, n.DiskFree,
	} {
		if number.Or(0) < 0 {
			return n, refuse(http.StatusUnprocessableEntity, "a number of the report is negative")
		}
	}
	n.Time = n.Time.UTC()
	times := []time.Time{n.Time}
	for _, at := range []*rt.Opt[time.Time]{&n.OldestUndelivered, &n.LastDrain, &n.LastSuccess, &n.BreakerUntil} {
		if moment, ok := at.Get(); ok {
			at.Set(moment.UTC())
			times = append(times, moment.UTC())
		}
	}
	for _, at := range times {
		isOutside := at.Year() < 1970 || at.Year() > 9998
		if isOutside {
			return n, refuse(http.StatusUnprocessableEntity, "a time of the report is missing, or not between the years 1970 and 9998")
		}
	}
	return n, nil
}

// nodeCursors matches cursors of GET /v1/nodes.
var nodeCursors = regexp.MustCompile(`^([0-9a-f]{2}){0,128}\.([0-9a-f]{2}){1,128}\.([0-9a-f]{2}){1,64}$`)

// nodeParameters are the parameters of GET /v1/nodes.
var nodeParameters = map[string]parameter{
	"cluster": listParameters["cluster"],
	"limit":   listParameters["limit"],
	"node":    {false, text(func(q *query, v []string) { q.node = v[0] })},
	"cursor": {false, func(q *query, v []string) string {
		if !nodeCursors.MatchString(v[0]) {
			return "must be next of an earlier answer"
		}
		q.cursor = v[0]
		return ""
	}},
}

// nodeAnswer is a node with what is wrong with it.
type nodeAnswer struct {
	site.Node
	Problems []site.Problem `json:"problems"`
}

// readNodes answers GET /v1/nodes, for operators.
func (s *readers) readNodes(w http.ResponseWriter, r *http.Request, q reading, _ string) error {
	list, err := parseQuery(r, nodeParameters)
	if err != nil {
		return err
	}
	if q.access != nil {
		return refuse(http.StatusForbidden, "only operators may read the nodes (serve.operators)")
	}
	nodes, next, err := s.conf.Registry.Nodes.List(q.ctx, site.NodeFilter{Cluster: list.filter.Cluster, Node: list.node}, list.cursor, list.limit)
	if err != nil {
		return err
	}
	now, answers := time.Now(), []nodeAnswer{}
	for _, node := range nodes {
		answers = append(answers, nodeAnswer{node, node.Problems(now)})
	}
	page := struct {
		Next  string       `json:"next"`
		Nodes []nodeAnswer `json:"nodes"`
	}{next, answers}
	answer, err := q.encode(page)
	if err != nil {
		return err
	}
	replyText(w, answer)
	return nil
}
