package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// BreakerReading is what the Prologs of a machine have counted.
type BreakerReading struct {
	Failures int       // Prologs in a row that started no tracker
	Until    time.Time // no tracker is started before; zero if the breaker is closed
}

// ReadBreaker returns the reading of the breaker. If one machine has several nodes, worst has the
// most failures. failures and reset are the settings of the hooks. The error is about the
// directory, or about a file that cannot be read.
func (s State) ReadBreaker(failures int, reset time.Duration, now time.Time) (worst BreakerReading, err error) {
	if _, err := os.Stat(s.Dir); err != nil {
		return worst, fmt.Errorf("read the breaker: %w", err)
	}
	paths, err := filepath.Glob(filepath.Join(s.Dir, "breaker@*.json"))
	for _, path := range paths {
		var st breakerState
		if readErr := readJSON(path, &st); readErr != nil {
			err = errors.Join(err, fmt.Errorf("read the breaker: %w", readErr))
			continue
		}
		r := BreakerReading{Failures: st.Failures}
		if (breaker{failures: failures, reset: reset}).open(st, now) {
			r.Until = st.Until
		}
		isWorse := r.Failures > worst.Failures || r.Until.After(worst.Until)
		if isWorse {
			worst = r
		}
	}
	return worst, err
}
