package main

import (
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/config"
	"github.com/resource-tracker/rt/spool"
)

// openSpool creates the run's file.
func (t *jobTracker) openSpool(facts rt.Host) (err error) {
	readers, denied := access(t.cfg.Spool)
	t.writer, err = spool.Create(t.cfg.Spool.Dir, t.id, facts, spool.Options{
		CommitInterval: t.cfg.Spool.CommitInterval.Duration,
		QuotaRun:       t.cfg.Spool.QuotaRun.Bytes,
		QuotaNode:      t.cfg.Spool.QuotaNode.Bytes,
		Access:         readers,
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

// access returns the users who may read the run once it has ended. Where the configured
// group does not exist, that is its owner alone, and the error reports it.
func access(cfg config.Spool) (spool.Access, error) {
	to, gid, err := cfg.Readers("/etc/group")
	readers := spool.Access{Owner: to.Owner}
	if err == nil && to.Group != "" {
		readers.Group = rt.Some(gid)
	}
	return readers, err
}
