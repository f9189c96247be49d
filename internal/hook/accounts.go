package hook

import (
	"os"
	"strconv"
	"strings"

	slurmhook "github.com/resource-tracker/rt/slurm/hook"
)

// trackerUser returns whom a tracker runs as, from the file passwd(5), nil where
// the user does not exist.
//
// It and groupName read local files only. Package os/user may load the C
// library's name services, and a question to a directory service can take longer
// than a Prolog may.
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

// groupName returns a group's name from the file group(5), empty where it is not there.
func groupName(group string, gid uint64) string {
	if fields := account(group, 2, strconv.FormatUint(gid, 10)); fields != nil {
		return fields[0]
	}
	return ""
}

// account returns the fields of the line of a file of passwd(5) or group(5) whose
// field i is value, nil where there is none.
func account(path string, i int, value string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(fields) > 2 && fields[i] == value {
			return fields
		}
	}
	return nil
}
