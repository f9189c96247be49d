package site

import (
	"fmt"
	"time"
)

// The limits from which on an operator has something to do. The limits of the spool are as in the
// alerts in contrib/prometheus.
const (
	lateReport = 2 * time.Hour // a node reports after each drain; some sites drain each hour
	longWait   = 6 * time.Hour // of an ended run, although drains succeed
	fullSpool  = 80            // percent of the limit
	fullDisk   = 95            // percent of the file system
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
		add(4, "rt-spool verify names them.", "%s", counted(files, "unreadable file"))
	}
	silent, drains := now.Sub(n.Reported), n.FailedDrains.Or(0)
	if silent > lateReport {
		add(3, "Is the node up, and its timer or cron job of rt-spool drain enabled?", "no report for %s", ageText(silent))
	}
	oldest, isWaiting := n.OldestUndelivered.Get()
	isStuck := isWaiting && drains == 0 && silent <= lateReport && now.Sub(oldest) > longWait
	if isStuck {
		add(3, "rt-spool ls on the node names them, and rt-spool drain prints the cause.", "%s waiting, the oldest for %s", counted(n.UndeliveredRuns.Or(0), "ended run"), ageText(now.Sub(oldest)))
	}
	if drains > 0 {
		add(2, "rt-spool drain on the node prints the cause.", "%s", counted(drains, "failed drain"))
	}
	if failures := n.HookFailures.Or(0); failures > 0 && !isOpen {
		add(1, "The cause is in the log: journalctl -t rt-prolog.", "%s in a row", counted(failures, "hook failure"))
	}
	return list
}

// counted is a number with its noun: "1 failed drain", "2 failed drains".
func counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
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

func ageText(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d/time.Minute))
	case d < 2*day:
		return fmt.Sprintf("%d h", int(d/time.Hour))
	}
	return fmt.Sprintf("%d d", int(d/day))
}
