package rt

import (
	"cmp"
	"strings"
	"time"
)

// Copy is what decides which of several copies of a run is used: the file of a spool, or a registration at a site. A run
// is registered twice if its node forgets the first registration. A field that is not known is zero.
type Copy struct {
	State       State
	HasRecord   bool      // all that was stored of the run is there, as in each file of a spool
	LastReading time.Time // of a copy whose readings are known
	Readings    int64     // that are stored
	IsAtSite    bool
	Place       string // path of the file, or id of the registration
}

// Better reports whether c is used and not other, another copy of the same run. The better copy has ended, else it
// has the complete record, a later reading, more readings, is a file, or was registered later. Of two different
// copies of a run exactly one is better.
func (c *Copy) Better(other *Copy) bool {
	return cmp.Or(
		compareBool(c.State != StateRunning, other.State != StateRunning),
		compareBool(c.HasRecord, other.HasRecord),
		c.LastReading.Compare(other.LastReading),
		cmp.Compare(c.Readings, other.Readings),
		compareBool(other.IsAtSite, c.IsAtSite),
		strings.Compare(c.Place, other.Place),
	) > 0
}

// compareBool is positive if only a is true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// IsSame reports whether other is a copy of r. A run of another user is not, whatever its name is; a site can have the
// pseudonym of a user.
func (r *Run) IsSame(other *Run) bool {
	isOfUser := r.User == other.User || r.User == "" || other.User == "" || IsPseudonym("user", r.User) || IsPseudonym("user", other.User)
	isAtOnce := r.Start.UnixMilli() == other.Start.UnixMilli() // FileStem takes longer
	return isAtOnce && isOfUser && r.Cluster == other.Cluster && r.FileStem() == other.FileStem()
}

// IsPseudonym reports whether a name has the form of the pseudonym of a kind, such as user-mzxw6ytboi5dgmrq.
func IsPseudonym(kind, name string) bool {
	hash, isCut := strings.CutPrefix(name, kind+"-")
	return isCut && len(hash) == 16 && strings.Trim(hash, "abcdefghijklmnopqrstuvwxyz234567") == ""
}
