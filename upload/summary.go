package upload

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxProblems limits a summary: 10,000 runs may fail for the same reason.
const maxProblems = 100

// Summary is the result of a drain.
type Summary struct {
	Started     time.Time `json:"started"`
	ElapsedSecs float64   `json:"elapsed_secs"`

	Delivered int `json:"runs_delivered"`
	Failed    int `json:"runs_failed"`    // kept for the next drain
	Waiting   int `json:"runs_waiting"`   // not delivered because the drain ended early
	Live      int `json:"runs_live"`      // still tracked
	LiveSent  int `json:"runs_live_sent"` // of these, those with all rows so far at the receiver
	Damaged   int `json:"runs_damaged"`   // their files cannot be read

	Rows  int64 `json:"rows"`  // uploaded by this drain
	Bytes int64 `json:"bytes"` // uploaded by this drain, compressed

	// PossibleDuplicates counts the runs that were registered again, after a request without an
	// answer or because the receiver forgot the run. The receiver may hold a second run that never
	// ends.
	PossibleDuplicates int `json:"possible_duplicates"`
	// FinishUnconfirmed counts the runs that are delivered although no answer confirmed their
	// finish: the receiver refused to close them a second time.
	FinishUnconfirmed int `json:"finish_unconfirmed"`

	Problems        []Problem `json:"problems"`
	ProblemsOmitted int       `json:"problems_omitted,omitempty"`
}

// Problem is what went wrong with one run, or with the drain as a whole.
type Problem struct {
	Run   string `json:"run,omitempty"` // the spool file
	Error string `json:"error"`
}

func (s *Summary) addProblem(run string, err error) {
	if len(s.Problems) >= maxProblems {
		s.ProblemsOmitted++
		return
	}
	s.Problems = append(s.Problems, Problem{Run: run, Error: err.Error()})
}

// result is the error of a drain that ended with this summary.
func (s *Summary) result(ctx context.Context) error {
	var early *stopped
	if cause := context.Cause(ctx); errors.As(cause, &early) && errors.Is(early, ErrConfig) {
		return early
	} else if cause != nil && s.Waiting+s.Failed > 0 {
		if errors.Is(cause, ErrTemporary) {
			return cause
		}
		return fmt.Errorf("%w: %w", ErrTemporary, cause)
	}
	if s.Failed+s.Waiting > 0 {
		return fmt.Errorf("%w: %d failed, %d waiting", ErrTemporary, s.Failed, s.Waiting)
	}
	if s.Damaged > 0 {
		return fmt.Errorf("%w: %d of them", ErrDamaged, s.Damaged)
	}
	return nil
}
