package lake

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/resource-tracker/rt/site"
)

// unreadable collects the errors of partitions that cannot be read. The other partitions are changed.
type unreadable struct {
	list []error
	more int
}

// mostErrors limits the errors that are reported.
const mostErrors = 10

// leave records an error that is about one partition alone. It returns any other error.
func (u *unreadable) leave(err error) error {
	remedy := ""
	switch {
	case errors.Is(err, errFile):
		remedy = "restore it from a backup, or delete the files with this number from runs and samples of the partition and start rt-site lake --rebuild"
	case errors.Is(err, fs.ErrPermission):
		remedy = "make it accessible to the user of rt-site, and start this again"
	default:
		return err
	}
	if len(u.list) == mostErrors {
		u.more++
		return nil
	}
	u.list = append(u.list, fmt.Errorf("%w: %s", err, remedy))
	return nil
}

// err returns the errors as one that is site.ErrDamaged.
func (u *unreadable) err() error {
	if len(u.list) == 0 {
		return nil
	}
	list := u.list
	if u.more > 0 {
		list = append(list, fmt.Errorf("%d more partitions of the lake cannot be read", u.more))
	}
	return fmt.Errorf("%w: %w", site.ErrDamaged, errors.Join(list...))
}
