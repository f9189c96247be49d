package site

import (
	"time"

	"github.com/resource-tracker/rt"
)

// NodeState is what a node reports of itself after a drain. It has no data of jobs or users. What
// the node does not know is absent. Times are from the node's clock.
type NodeState struct {
	Cluster string    `json:"cluster"` // empty: not known
	Node    string    `json:"node"`    // name of the node in Slurm
	Time    time.Time `json:"time"`    // when the state was read

	Version string        `json:"version"`      // of rt-spool
	Schema  rt.Opt[int64] `json:"spool_schema"` // version of the spool files that it writes

	Trackers          rt.Opt[int64]     `json:"trackers_alive"`
	UndeliveredRuns   rt.Opt[int64]     `json:"undelivered_runs"`   // have ended, or lost their tracker
	UndeliveredBytes  rt.Opt[int64]     `json:"undelivered_bytes"`  // size of their files
	OldestUndelivered rt.Opt[time.Time] `json:"oldest_undelivered"` // end of the oldest of them, or its start if it lost its tracker; absent without any
	Unreadable        rt.Opt[int64]     `json:"unreadable_files"`   // files of the spool that cannot be read

	LastDrain    rt.Opt[time.Time] `json:"last_drain"`            // end of the last drain
	LastSuccess  rt.Opt[time.Time] `json:"last_successful_drain"` // end of the last drain that delivered all ended runs
	FailedDrains rt.Opt[int64]     `json:"failed_drains"`         // since then
	Delivered    rt.Opt[int64]     `json:"runs_delivered_total"`
	Lost         rt.Opt[int64]     `json:"runs_lost_total"` // runs with a tracker that died

	HookFailures  rt.Opt[int64]     `json:"hook_failures"`      // of Prologs in a row
	BreakerUntil  rt.Opt[time.Time] `json:"breaker_open_until"` // absent while the breaker is closed
	HooksDisabled rt.Opt[bool]      `json:"hooks_disabled"`     // the file of the kill switch exists

	SpoolBytes rt.Opt[int64] `json:"spool_bytes"`       // disk space of the spool
	SpoolLimit rt.Opt[int64] `json:"spool_limit_bytes"` // from which on runs are thinned; absent without a limit
	DiskBytes  rt.Opt[int64] `json:"disk_bytes"`        // size of the file system of the spool
	DiskFree   rt.Opt[int64] `json:"disk_free_bytes"`   // of it, for users other than root
}

// Node is the last report of a node.
type Node struct {
	NodeState
	Owner    string    `json:"owner"`    // of the token that sent it; reports of others never replace it
	Reported time.Time `json:"reported"` // when it arrived
}

// NodeFilter selects nodes. A zero field selects all.
type NodeFilter struct{ Cluster, Node string }

// NodeAge is what the age of deliveries needs of a node.
type NodeAge struct {
	Reported    time.Time         // when its last report arrived
	LastSuccess rt.Opt[time.Time] // see NodeState
	Undelivered rt.Opt[int64]     // runs
}
