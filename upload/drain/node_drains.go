package drain

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/file"
	"github.com/resource-tracker/rt/site"
)

// drainsFile is the name of the file in the spool in which the drains record what they did.
const drainsFile = ".drains.json"

// drains is what the drains of a spool have done. The zero value is for a spool without a drain.
type drains struct {
	// The identity of the node, for when the spool has no run of it. It counts on Host only, because
	// a spool may be copied to another machine.
	Host    string `json:"host"`
	Cluster string `json:"cluster"`
	Node    string `json:"node"`

	Last        time.Time `json:"last"`         // end of the last drain
	LastSuccess time.Time `json:"last_success"` // end of the last one that delivered all ended runs; zero before
	Failed      int64     `json:"failed"`       // drains since then
	Delivered   int64     `json:"delivered"`    // runs, of all drains
	Lost        int64     `json:"lost"`         // runs of dead trackers, of all drains

	Receiver string `json:"receiver"`      // base URL of the last receiver
	Takes    bool   `json:"takes_reports"` // it takes reports of nodes

	TakesLive bool       `json:"takes_live"` // it takes reports of runs that are not delivered yet
	LiveAt    time.Time  `json:"live_at"`    // last such report
	LiveNodes []nodeName `json:"live_nodes"` // that had runs in it
}

func readDrains(dir string) (d drains, err error) {
	path := filepath.Join(dir, drainsFile)
	text, err := file.ReadSmall(path, file.SmallLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return drains{}, fmt.Errorf("read what the drains have done: %s: %w; the next drain replaces the file", path, err)
	}
	return d, nil
}

// ReadDrains returns what the drains of a spool have done. The other fields of the state are absent.
func ReadDrains(spool string) (n site.NodeState, err error) {
	d, err := readDrains(spool)
	if err == nil {
		d.fillState(&n)
	}
	return n, err
}

// writeFile replaces the file. It needs no sync: after a loss of power the next drain writes it.
func (d drains) writeFile(dir string) error {
	path := filepath.Join(dir, drainsFile)
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := file.Replace(f, path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// fillState sets what the drains know in a state. Without a drain nothing is known.
func (d drains) fillState(n *site.NodeState) {
	if d.Last.IsZero() {
		return
	}
	n.LastDrain, n.FailedDrains = rt.Some(d.Last), rt.Some(d.Failed)
	n.Delivered, n.Lost = rt.Some(d.Delivered), rt.Some(d.Lost)
	if !d.LastSuccess.IsZero() {
		n.LastSuccess = rt.Some(d.LastSuccess)
	}
	if name, err := os.Hostname(); err == nil && name == d.Host {
		n.Cluster, n.Node = d.Cluster, d.Node
	}
}

// addDrain adds a drain. n is the state of the node after it.
func (d drains) addDrain(done *Drained, isComplete bool, n *site.NodeState, now time.Time) drains {
	d.Last = now.UTC()
	if isComplete {
		d.LastSuccess, d.Failed = d.Last, 0
	} else {
		d.Failed++
	}
	d.Delivered += int64(done.Delivered)
	d.Lost += int64(done.Lost)
	if name, err := os.Hostname(); err == nil && n.Node != "" {
		d.Host, d.Cluster, d.Node = name, n.Cluster, n.Node
	}
	return d
}
