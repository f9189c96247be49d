package config

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Access is spool.access: who may read a run that has ended, beside root and
// spool.user.
type Access struct {
	Owner bool   // the user whose job it was
	Group string // the members of this group; empty: of none
}

func parseAccess(text string) (Access, error) {
	group, named := strings.CutPrefix(text, "group:")
	switch {
	case text == "owner":
		return Access{Owner: true}, nil
	case text == "root":
		return Access{}, nil
	case named && group != "":
		return Access{Owner: true, Group: group}, nil
	}
	return Access{}, fmt.Errorf("%q is none of \"owner\", \"group:NAME\" and \"root\"", text)
}

// Readers returns spool.access and, where it names a group, that group's number, as
// the file group(5) has it: a directory service may take longer than a job's end.
// A number stands for itself.
func (s Spool) Readers(groupFile string) (access Access, gid uint64, err error) {
	access, err = parseAccess(s.Access)
	if err != nil || access.Group == "" {
		return access, 0, err
	}
	if gid, err := strconv.ParseUint(access.Group, 10, 32); err == nil {
		return access, gid, nil
	}
	text, err := os.ReadFile(groupFile)
	if err != nil {
		return access, 0, fmt.Errorf("spool.access: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimRight(line, "\n"), ":")
		if len(fields) < 3 || fields[0] != access.Group {
			continue
		}
		if gid, err := strconv.ParseUint(fields[2], 10, 32); err == nil {
			return access, gid, nil
		}
	}
	return access, 0, fmt.Errorf("spool.access: %s has no group %q; one of a directory service is named by its number, as group:1234", groupFile, access.Group)
}
