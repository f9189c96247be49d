package launch

import "golang.org/x/sys/unix"

// disableHugePages disables transparent huge pages for this process and the children that it starts, see PR_SET_THP_DISABLE
// of prctl(2). Where all programs use them, the default of several distributions, a tracker has 10 MiB resident instead
// of 6, and an error here costs only that. restore reverts it.
func disableHugePages() (restore func()) {
	isDisabled, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	if err != nil || isDisabled != 0 {
		return func() {}
	}
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) }
}
