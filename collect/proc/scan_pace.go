package proc

import (
	"fmt"
	"time"
)

const (
	// scanShare limits the CPU use of the scans, as a fraction of a core, on average.
	scanShare = 0.0025
	// scanCredit is the CPU time that scans may use in advance, the share of 4 minutes. So a few
	// slow scans, such as the first ones on a busy node, do not prevent all further scans of a
	// short job.
	scanCredit = 600 * time.Millisecond
	// scanPause is the minimum time between two scans. It is a little less than a second, so that
	// readings every second can each make a scan.
	scanPause = 900 * time.Millisecond
	// scanNoted is the minimum pause that is recorded in the ledger, because the readings in it
	// have no processes.
	scanNoted = 20 * time.Second
)

// scanPace sets when the next scan of a job's processes is due.
type scanPace struct {
	next    int64         // Boot time of the next scan
	last    int64         // Boot time of the last scan
	debt    time.Duration // CPU time of the scans that scanShare has not covered yet
	isNoted bool
}

// scanned records a scan and its cost. If the pause that follows is the first one of at least
// scanNoted, it returns the detail of an event, otherwise an empty string.
func (p *scanPace) scanned(boot int64, cost time.Duration, processes int) (detail string) {
	covered := time.Duration(scanShare * float64(boot-p.last))
	p.debt = max(0, p.debt-covered) + cost
	pause := max(scanPause, time.Duration(float64(p.debt-scanCredit)/scanShare))
	p.last, p.next = boot, boot+int64(pause)
	if pause < scanNoted || p.isNoted {
		return ""
	}
	p.isNoted = true
	return fmt.Sprintf("reading %d processes of the job took %d ms of CPU time: the readings of the next %.0f s are without processes, and so are most later ones",
		processes, cost.Milliseconds(), pause.Seconds())
}
