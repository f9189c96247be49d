package hook

import (
	"strconv"

	"github.com/resource-tracker/rt/internal/config"
	slurmhook "github.com/resource-tracker/rt/slurm/hook"
)

// trackerUser returns the trackers' user from a file in the form of passwd(5), nil if it
// has no such user.
//
// trackerUser and groupName only read local files. Package os/user can use the C library's
// name services, and a directory service can take longer than a Prolog may.
func trackerUser(passwd, name string) *slurmhook.User {
	fields := account(passwd, 0, name)
	if len(fields) < 4 {
		return nil
	}
	uid, err1 := strconv.ParseUint(fields[2], 10, 32)
	gid, err2 := strconv.ParseUint(fields[3], 10, 32)
	if err1 != nil || err2 != nil {
		return nil
	}
	return &slurmhook.User{UID: uint32(uid), GID: uint32(gid)}
}

// groupName returns a group's name from a file in the form of group(5), empty if it has no
// such group.
func groupName(group string, gid uint64) string {
	if fields := account(group, 2, strconv.FormatUint(gid, 10)); fields != nil {
		return fields[0]
	}
	return ""
}

// account returns the fields of the first account with the value in field i, nil if there is
// none.
func account(path string, i int, value string) []string {
	all, _ := config.Accounts(path) // a file that cannot be read has none
	for fields := range all {
		if fields[i] == value {
			return fields
		}
	}
	return nil
}
