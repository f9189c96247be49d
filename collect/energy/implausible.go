package energy

import (
	"time"

	"github.com/resource-tracker/rt"
)

// check is what is known about whether a domain's counter can be believed.
type check struct {
	copies copies
	first  uint64 // the counter at the first comparison with the one that it may be a copy of

	checkedAt       int64  // boot time of the last check for a counter that stands still
	checked         uint64 // its total at that time
	checkedPackages uint64 // the sum of the packages at that time
	isStuck         bool
}

// copies says whether a domain shows the counter of another domain.
type copies uint8

const (
	notCompared copies = iota
	equalSoFar         // in each comparison, but it has not moved yet
	isCopied           // it moved and was still equal
	isDistinct
)

// isCopy reports whether the domain is left out because another domain has its counter.
func (d *domain) isCopy() bool { return d.copies == equalSoFar || d.copies == isCopied }

// findCopies looks for domains of one socket that show one counter: the dies of some AMD
// processors ("package-0-die-0", "package-0-die-1", and their cores).
func (s *Source) findCopies() {
	for i := range s.domains {
		d := &s.domains[i]
		isDecided := d.copies == isCopied || d.copies == isDistinct
		if isDecided || !d.reading.Energy.Valid() || !d.reading.Socket.Valid() {
			continue
		}
		if of := s.sibling(i); of != nil {
			s.compare(d, of)
		}
	}
}

// sibling returns the first domain before domain i of the same source, kind and socket; nil if
// there is none that was read.
func (s *Source) sibling(i int) *domain {
	r := &s.domains[i].reading
	for k := range s.domains[:i] {
		o := &s.domains[k].reading
		isSame := o.Source == r.Source && o.Kind == r.Kind && o.Socket == r.Socket
		if isSame && o.Energy.Valid() {
			return &s.domains[k]
		}
	}
	return nil
}

// compare reads of a second time. d shows the same counter if its value is between the two
// values. Two counters are not that close in a range of 262 kJ.
func (s *Source) compare(d, of *domain) {
	after, err := s.value(of)
	if err != nil {
		return // the next reading compares
	}
	isBetween := of.last <= d.last && d.last <= after
	if after < of.last {
		isBetween = d.last >= of.last || d.last <= after // it wrapped
	}
	switch {
	case !isBetween:
		d.copies = isDistinct
	case d.copies == notCompared:
		d.copies, d.first = equalSoFar, d.last
	case d.last != d.first:
		d.copies = isCopied
	}
}

// findStuck clears the energy of a platform or a node that counted less than half of its
// packages' energy. Such a counter stands still, or counts something else.
func (s *Source) findStuck(boot int64) {
	packages := s.packages()
	for i := range s.domains {
		d := &s.domains[i]
		isWhole := d.reading.Kind == rt.EnergyPlatform || d.reading.Kind == rt.EnergyNode
		if !isWhole || !d.reading.Energy.Valid() {
			continue
		}
		isFirst := d.checkedAt == 0
		if !isFirst && boot-d.checkedAt >= int64(d.period()) {
			d.isStuck = d.total-d.checked < (packages-d.checkedPackages)/2
		}
		if isFirst || boot-d.checkedAt >= int64(d.period()) {
			d.checkedAt, d.checked, d.checkedPackages = boot, d.total, packages
		}
		if d.isStuck {
			d.reading.Energy.Clear()
		}
	}
}

// packages returns what the packages counted since the first reading, in microjoules.
func (s *Source) packages() uint64 {
	var sum uint64
	source := ""
	for i := range s.domains {
		d := &s.domains[i]
		if d.reading.Kind != rt.EnergyPackage || d.isCopy() {
			continue
		}
		if source == "" {
			source = d.reading.Source
		}
		if d.reading.Source == source {
			sum += d.total
		}
	}
	return sum
}

// period is longer than the time between two changes of a counter: RAPL's change every
// millisecond, Cray's ten times a second.
func (d *domain) period() time.Duration {
	if d.unit == joules {
		return time.Second
	}
	return 10 * time.Millisecond
}
