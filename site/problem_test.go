package site

import (
	"testing"
	"time"

	"github.com/resource-tracker/rt"
)

// A node that is silent for more than an hour has a problem, and so do runs that wait although drains succeed.
func TestProblems(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	waiting := NodeState{UndeliveredRuns: rt.Some[int64](2), OldestUndelivered: rt.Some(now.Add(-7 * time.Hour))}
	failing := waiting
	failing.FailedDrains = rt.Some[int64](1)
	recent := waiting
	recent.OldestUndelivered = rt.Some(now.Add(-5 * time.Hour))
	for name, tt := range map[string]struct {
		node    Node
		want    string
		urgency int
	}{
		"two hours":     {Node{Reported: now.Add(-2 * time.Hour)}, "", 0},
		"silent":        {Node{Reported: now.Add(-150 * time.Minute)}, "no report for 2 h", 3},
		"silent longer": {Node{Reported: now.Add(-7 * time.Hour), NodeState: waiting}, "no report for 7 h", 3},
		"silent days":   {Node{Reported: now.Add(-50 * time.Hour)}, "no report for 2 d", 3},
		"waiting":       {Node{Reported: now, NodeState: waiting}, "2 ended runs waiting, the oldest for 7 h", 3},
		"recent":        {Node{Reported: now, NodeState: recent}, "", 0},
		"failing":       {Node{Reported: now, NodeState: failing}, "1 failed drain", 2},
		"one hook":      {Node{Reported: now, NodeState: NodeState{HookFailures: rt.Some[int64](1)}}, "1 hook failure in a row", 1},
		"two files":     {Node{Reported: now, NodeState: NodeState{Unreadable: rt.Some[int64](2)}}, "2 unreadable files", 4},
	} {
		list := tt.node.Problems(now)
		what, urgency := "", 0
		if len(list) > 0 {
			what, urgency = list[0].What, list[0].Urgency
		}
		if what != tt.want || urgency != tt.urgency || len(list) > 1 {
			t.Errorf("%s: %+v", name, list)
		}
	}
}
