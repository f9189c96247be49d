package main

import (
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/spool"
)

// openSpool creates the run's file.
func (t *jobTracker) openSpool(facts rt.Host) (err error) {
	readers, denied := t.cfg.Spool.Readers("/etc/group")
	t.writer, err = spool.Create(t.cfg.Spool.Dir, t.id, facts, spool.Options{
		CommitInterval: t.cfg.Spool.CommitInterval.Duration,
		QuotaRun:       t.cfg.Spool.QuotaRun.Bytes,
		QuotaNode:      t.cfg.Spool.QuotaNode.Bytes,
		Access:         spool.Access(readers),
		Notify:         t.spoolFault,
	})
	if err != nil {
		return err
	}
	if denied != nil {
		t.log.Warn(denied.Error())
		t.writer.Event(rt.Event{Time: time.Now(), Kind: "spool", Name: "access", Status: "failed", Detail: denied.Error()})
	}
	return nil
}
