package collect

import "time"

// schedule computes when readings are due: on a grid that begins with the first one,
// so that the duration of a reading never delays the next ones.
type schedule struct {
	next       time.Time
	fast, slow time.Duration
	fastUntil  time.Time
	factor     int // by which the steps are longer than configured
}

func newSchedule(now time.Time, fast, fastFor, slow time.Duration, factor int) schedule {
	s := schedule{next: now, fast: fast, slow: slow, fastUntil: now.Add(fastFor), factor: factor}
	s.advance(now)
	return s
}

// advance moves to the next reading in the future and returns how many readings were
// missed before it.
func (s *schedule) advance(now time.Time) (missed int) {
	step := s.step()
	s.next = s.next.Add(step)
	if late := now.Sub(s.next); late >= 0 {
		missed = int(late/step) + 1
		s.next = s.next.Add(time.Duration(missed) * step)
	}
	return missed
}

// step is the time from the reading at s.next to the following one.
func (s *schedule) step() time.Duration {
	if s.next.Before(s.fastUntil) {
		return s.fast * time.Duration(s.factor)
	}
	return s.slow * time.Duration(s.factor)
}
