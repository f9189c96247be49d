package page

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/site"
)

// accounted is what Slurm's accounting says of a run, from the summary of its finish.
type accounted struct {
	SlurmState    string          `json:"slurm_state"`    // empty if it says no more than the outcome
	SuspendedSecs rt.Opt[float64] `json:"suspended_secs"` // no run time
}

func accountedOf(run site.Run) (a accounted) {
	isUnreadable := run.Finish == nil || json.Unmarshal(run.Finish.Summary, &a) != nil
	if isUnreadable {
		return accounted{}
	}
	return a
}

// outcome is how a run ended, with Slurm's own state where that says more: "cancelled (PREEMPTED)", "cancelled by root".
func (a *accounted) outcome(text string) string {
	word, by, _ := strings.Cut(printable.Text(a.SlurmState), " ")
	switch {
	case word == "":
		return text
	case strings.EqualFold(word, text):
		return text + " " + by
	}
	return text + " (" + printable.Text(a.SlurmState) + ")"
}

// elapsed is the time between two instants, without the time in which the job was suspended.
func (a *accounted) elapsed(from, to time.Time) string {
	suspended := time.Duration(a.SuspendedSecs.Or(0) * float64(time.Second))
	isPossible := suspended >= 0 && suspended <= to.Sub(from)
	if !isPossible {
		suspended = 0
	}
	return elapsed(from, to.Add(-suspended))
}
