package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/resource-tracker/rt/upload"
	"github.com/resource-tracker/rt/upload/sentinel"
)

// reportTime limits the time of a report.
const reportTime = 15 * time.Second

// setReceiver sets what is known of the receiver of a drain.
func (d *drains) setReceiver(to *sentinel.Client) {
	isSame := d.Receiver == to.Endpoint()
	d.Receiver = to.Endpoint()
	d.Takes = to.TakesNodes() || d.Takes && isSame
	d.TakesLive = to.TakesLive() || d.TakesLive && isSame
}

// AfterDrain records a drain in the spool, and sends the state of the node to a receiver that takes it. It
// reports whether it has sent the state. The spool remembers whether the receiver takes reports: only the answer to a
// registration says so, and most drains register no run. Any other receiver gets nothing.
func (s Node) AfterDrain(ctx context.Context, done *Drained, drainErr error, to *sentinel.Client) (isSent bool, err error) {
	now := time.Now()
	before, err := readDrains(s.Spool)
	errs := []error{err}
	n, err := s.Read(now) // what cannot be read is absent in the report
	errs = append(errs, err)
	isComplete := drainErr == nil || errors.Is(drainErr, upload.ErrDamaged) // all ended runs that can be read are delivered
	d := before.addDrain(done, isComplete, &n, now)
	d.setReceiver(to)
	d.addLive(&done.live)
	d.fillState(&n)
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
	return isSent, errors.Join(append(errs, d.writeFile(s.Spool))...)
}
