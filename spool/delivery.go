package spool

import (
	"errors"
	"fmt"
	"time"

	"github.com/resource-tracker/rt"
)

// Delivery is the state of a run's delivery in its file: the registration and the batches. A change is on disk when its
// method returns.
type Delivery struct{ r *Reader }

// Delivery returns the state of the run's delivery.
func (r *Reader) Delivery() *Delivery { return &Delivery{r} }

// DeliveredAt returns the time at which the run was marked as delivered, zero before.
func (d *Delivery) DeliveredAt() (time.Time, error) {
	var t time.Time
	_, err := one(d.r.db, "run", []column{{"delivered_us", &t}})
	return t, describe(d.r.path, err)
}

// Batches returns the sealed batches, ascending.
func (d *Delivery) Batches() ([]rt.Batch, error) {
	return all[rt.Batch](d.r, "batch ORDER BY number")
}

// Registration returns what is known about the run at the receiver; false before the first
// request.
func (d *Delivery) Registration() (rt.Registration, bool, error) {
	list, err := all[rt.Registration](d.r, "registration")
	if err != nil || len(list) == 0 {
		return rt.Registration{}, false, err
	}
	return list[0], true, nil
}

// SaveRegistration replaces what is known about the run at the receiver.
func (d *Delivery) SaveRegistration(reg rt.Registration) error {
	return d.r.change("save the registration", func() error {
		return d.r.db.insert("registration", append(columnsOf(&reg), column{"id", new(1)}))
	})
}

// SealBatch stores the description of a batch before any of its bytes is sent. The batch must
// either start directly after the last batch, or have the number and the snapshots of an earlier
// batch, which it replaces. The first batch starts at snapshot 1, or at 2, where the first interval
// ends. Otherwise the error is ErrOutOfOrder.
func (d *Delivery) SealBatch(b rt.Batch) error {
	return d.r.change("seal a batch", func() error {
		newest, err := d.r.LastSeq()
		if err != nil {
			return err
		}
		list, err := d.Batches()
		if err != nil {
			return err
		}
		if err := fits(b, list, newest); err != nil {
			return err
		}
		if err := stillThere(d.r.db, b); err != nil {
			return err
		}
		return d.r.db.insert("batch", columnsOf(&b))
	})
}

// stillThere returns an error if the tracker has thinned snapshots of a batch since they were read.
func stillThere(c *conn, b rt.Batch) error {
	if gone, err := thinned(c); err != nil || gone == 0 {
		return err
	}
	n, err := c.queryInt("SELECT count(*) FROM snapshot WHERE seq BETWEEN ? AND ?", b.FirstSeq, b.LastSeq)
	if err == nil && n < int64(b.Rows) {
		err = fmt.Errorf("%w: number %d has %d rows of the snapshots %d to %d, and %d are left because some were thinned; the batch must be made again",
			ErrOutOfOrder, b.Number, b.Rows, b.FirstSeq, b.LastSeq, n)
	}
	return err
}

// fits returns an error if b neither continues the batches of the list nor replaces one.
func fits(b rt.Batch, list []rt.Batch, newest int64) error {
	if n := b.Number; n >= 1 && n <= len(list) {
		if old := list[n-1]; b.FirstSeq != old.FirstSeq || b.LastSeq != old.LastSeq || b.Rows != old.Rows {
			return fmt.Errorf("%w: number %d is sealed with %d rows of the snapshots %d to %d, not with %d of %d to %d",
				ErrOutOfOrder, n, old.Rows, old.FirstSeq, old.LastSeq, b.Rows, b.FirstSeq, b.LastSeq)
		}
		return nil
	}
	last := int64(0)
	if len(list) > 0 {
		last = list[len(list)-1].LastSeq
	}
	if b.Number != len(list)+1 || !follows(b, last) || b.LastSeq > newest {
		return fmt.Errorf("%w: number %d of the snapshots %d to %d, after %d batches that end at %d, with %d snapshots stored",
			ErrOutOfOrder, b.Number, b.FirstSeq, b.LastSeq, len(list), last, newest)
	}
	return nil
}

// follows reports whether b begins directly after snapshot last. The first snapshot may be
// omitted: no interval ends there.
func follows(b rt.Batch, last int64) bool {
	omitsFirst := last == 0 && b.FirstSeq == 2
	isNext := b.FirstSeq == last+1 || omitsFirst
	return isNext && b.LastSeq >= b.FirstSeq
}

// MarkUploaded records that the receiver has confirmed a batch.
func (d *Delivery) MarkUploaded(number int, at time.Time) error {
	return d.r.change("mark a batch as uploaded", func() error {
		n, err := d.r.db.change("UPDATE batch SET uploaded_us = ? WHERE number = ?", at.UnixMicro(), int64(number))
		if err == nil && n != 1 {
			err = fmt.Errorf("%s: no batch has the number %d", d.r.path, number)
		}
		return err
	})
}

// MarkDelivered records that a receiver has confirmed all of an ended run.
func (d *Delivery) MarkDelivered(at time.Time) error {
	if err := d.r.ended("mark as delivered"); err != nil {
		return err
	}
	run := d.r.run
	if run.State == rt.StateRunning {
		return fmt.Errorf("mark %s as delivered: the run has not ended", d.r.path)
	}
	run.State = rt.StateDelivered
	return d.r.changeRun("mark the run as delivered", run, func() error {
		_, err := d.r.db.change("UPDATE run SET delivered_us = ?", at.UnixMicro())
		return err
	})
}

// SendAgain makes an ended run of a delivered one, for a receiver that was restored from a backup. The next
// delivery asks the receiver whether it knows the run, and repeats what it lacks. That needs a receiver that
// answers for a finished run: one that takes records. SendAgain returns false, and changes nothing, if the run
// was delivered to another endpoint or to a receiver without records, or is not delivered.
func (d *Delivery) SendAgain(endpoint string, why rt.Event) (bool, error) {
	if err := d.r.ended("send again"); err != nil {
		return false, err
	}
	reg, _, err := d.Registration()
	isIts := reg.Endpoint == endpoint && reg.Record
	if err != nil || !isIts || d.r.run.State != rt.StateDelivered {
		return false, err
	}
	reg.FinishIntentAt, reg.FinishedAt = time.Time{}, time.Time{}
	run := d.r.run
	run.State = rt.StateEnded
	err = d.r.changeRun("send the run again", run, func() error {
		_, err := d.r.db.change("UPDATE run SET delivered_us = NULL")
		return errors.Join(err, d.r.db.insert("registration", append(columnsOf(&reg), column{"id", new(1)})), d.r.db.insert("event", columnsOf(&why)))
	})
	return err == nil, err
}
