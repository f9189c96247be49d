package config

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/internal/file"
)

// Readers is spool.access: the users who may read a run, besides root and
// spool.user. It converts to a spool.Access.
type Readers struct {
	Owner bool           // the job's user
	Group rt.Opt[uint64] // the members of this group
}

// parseAccess returns the readers, and the name of the group if there is one.
func parseAccess(text string) (r Readers, group string, err error) {
	group, named := strings.CutPrefix(text, "group:")
	switch {
	case text == "owner":
		return Readers{Owner: true}, "", nil
	case text == "root":
		return Readers{}, "", nil
	case named && group != "":
		return Readers{Owner: true}, group, nil
	}
	return Readers{}, "", fmt.Errorf("%q is none of \"owner\", \"group:NAME\" and \"root\"", text)
}

// Readers returns spool.access. It looks up the group in groupFile, see group(5), not in a slow
// directory service; a number is a group id. Without it the other readers come with the error.
func (s Spool) Readers(groupFile string) (Readers, error) {
	r, group, err := parseAccess(s.Access)
	if err != nil || group == "" {
		return r, err
	}
	if gid, err := strconv.ParseUint(group, 10, 32); err == nil {
		r.Group.Set(gid)
		return r, nil
	}
	groups, err := Accounts(groupFile)
	if err != nil {
		return r, fmt.Errorf("spool.access: %w", err)
	}
	for fields := range groups {
		if gid, err := strconv.ParseUint(fields[2], 10, 32); err == nil && fields[0] == group {
			r.Group.Set(gid)
			return r, nil
		}
	}
	return r, fmt.Errorf("spool.access: %s has no group %q; one of a directory service is named by its number, as group:1234", groupFile, group)
}

// maxAccounts bounds passwd(5) and group(5), which list every account at some sites.
const maxAccounts = 32 << 20

// Accounts returns the fields of each line of a file in the form of passwd(5) or group(5), at least
// three. If the file cannot be read, it counts as empty, and the error says so.
func Accounts(path string) (iter.Seq[[]string], error) {
	text, err := file.ReadSmall(path, maxAccounts)
	return func(yield func([]string) bool) {
		for line := range strings.Lines(string(text)) {
			fields := strings.Split(strings.TrimRight(line, "\n"), ":")
			if len(fields) > 2 && !yield(fields) {
				return
			}
		}
	}, err
}

// Account returns the first account of Accounts with the value in field i, nil for none.
func Account(path string, i int, value string) []string {
	all, _ := Accounts(path) // a file that cannot be read has none
	for fields := range all {
		if fields[i] == value {
			return fields
		}
	}
	return nil
}
