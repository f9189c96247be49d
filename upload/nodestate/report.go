package nodestate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Receiver is a service that may take reports of nodes.
type Receiver interface {
	// Endpoint is its base URL.
	Endpoint() string
	// TakesNodes reports whether it has announced that it takes reports, since the program started.
	TakesNodes() bool
	// PutNode sends a report. isTaken is false if the receiver takes no reports any more.
	PutNode(ctx context.Context, report []byte) (isTaken bool, err error)
}

// reportTime limits the time of a report.
const reportTime = 15 * time.Second

// AfterDrain records a drain in the spool, and sends the state of the node to a receiver that takes it. It
// reports whether it has sent the state. The spool remembers whether the receiver takes reports: only the answer to a
// registration says so, and most drains register no run. Any other receiver gets nothing.
func (s Source) AfterDrain(ctx context.Context, r Drained, to Receiver) (isSent bool, err error) {
	now := time.Now()
	before, err := readDrains(s.Spool)
	errs := []error{err}
	n, err := s.Read(now) // what cannot be read is absent in the report
	errs = append(errs, err)
	d := before.record(r, &n, now)
	d.Takes = to.TakesNodes() || d.Takes && d.Receiver == to.Endpoint()
	d.Receiver = to.Endpoint()
	d.fill(&n)
	if d.Takes && n.Node != "" {
		text, err := json.Marshal(n)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTime)
			defer cancel()
			d.Takes, err = to.PutNode(ctx, text)
		}
		isSent = d.Takes && err == nil
		if err != nil {
			errs = append(errs, fmt.Errorf("report the state of this node: %w", err))
		}
	}
	return isSent, errors.Join(append(errs, d.write(s.Spool))...)
}
