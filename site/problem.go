package site

import (
	"fmt"
	"time"
)

// The limits from which on an operator has something to do. The limits of the spool are as in the
// alerts in contrib/prometheus.
const (
	lateReport = 6 * time.Hour
	fullSpool  = 80 // percent of the limit
	fullDisk   = 95 // percent of the file system
)

// Problem is what is wrong with a node, and what an operator does about it.
type Problem struct {
	What    string `json:"what"`
	Remedy  string `json:"remedy"`
	Urgency int    `json:"urgency"` // from 1 to 7, the most urgent
}

// Problems returns what is wrong with a node, the most urgent problem first.
func (n *Node) Problems(now time.Time) []Problem {
	list := []Problem{}
	add := func(urgency int, remedy, format string, args ...any) {
		list = append(list, Problem{fmt.Sprintf(format, args...), remedy, urgency})
	}
	until, ok := n.BreakerUntil.Get()
	isOpen := ok && until.After(now)
	if isOpen {
		add(7, "The cause is in the log: journalctl -t rt-prolog.", "breaker open until %s UTC: no job is tracked", until.UTC().Format("15:04"))
	}
	if n.HooksDisabled.Or(false) {
		add(6, "Remove the file of hooks.disable_file, /etc/rt/disabled by default.", "hooks are disabled: no job is tracked")
	}
	if spool := n.SpoolFull(); spool >= fullSpool {
		add(5, "Deliver what waits, or lower spool.retain.", "spool %d %% full", spool)
	}
	if disk := n.DiskFull(); disk >= fullDisk {
		add(5, "Make room, deliver what waits, or lower spool.retain.", "disk of the spool %d %% full", disk)
	}
	if files := n.Unreadable.Or(0); files > 0 {
		add(4, "rt-spool verify names them.", "%d unreadable files", files)
	}
	if silent := now.Sub(n.Reported); silent > lateReport {
		add(3, "Is the node up, and its timer or cron job of rt-spool drain enabled?", "no report for %s", silence(silent))
	}
	if drains := n.FailedDrains.Or(0); drains > 0 {
		add(2, "rt-spool drain on the node prints the cause.", "%d failed drains", drains)
	}
	if failures := n.HookFailures.Or(0); failures > 0 && !isOpen {
		add(1, "The cause is in the log: journalctl -t rt-prolog.", "%d hook failures in a row", failures)
	}
	return list
}

// SpoolFull is how full the spool is, in percent of its limit; 0 if that is not known.
func (n *Node) SpoolFull() int { return percentOf(n.SpoolBytes.Or(0), n.SpoolLimit.Or(0)) }

// DiskFull is how full the file system of the spool is, in percent; 0 if that is not known.
func (n *Node) DiskFull() int {
	free, isKnown := n.DiskFree.Get()
	if !isKnown {
		return 0
	}
	return percentOf(n.DiskBytes.Or(0)-free, n.DiskBytes.Or(0))
}

func percentOf(part, whole int64) int {
	if whole <= 0 {
		return 0
	}
	return int(float64(part) / float64(whole) * 100)
}

func silence(d time.Duration) string {
	const day = 24 * time.Hour
	if d < 2*day {
		return fmt.Sprintf("%d h", int(d/time.Hour))
	}
	return fmt.Sprintf("%d d", int(d/day))
}
