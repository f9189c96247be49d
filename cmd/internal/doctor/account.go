package doctor

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt/cmd/internal/config"
)

// account is the user of trackers and drains, spool.user. The zero value is a user that does not exist.
type account struct {
	uid    string
	groups []string // ids
}

// user returns spool.user from /etc/passwd, where the hooks read it.
func (d *Doctor) user() (a account, err error) {
	all, err := config.Accounts(d.path("/etc/passwd"))
	if err != nil {
		return a, err
	}
	name := d.Config.Spool.User
	for fields := range all {
		if fields[0] == name && len(fields) > 3 {
			a = account{fields[2], []string{fields[3]}}
			break
		}
	}
	groups, _ := config.Accounts(d.path("/etc/group")) // the group of passwd remains
	for fields := range groups {
		if len(fields) > 3 && slices.Contains(strings.Split(fields[3], ","), name) {
			a.groups = append(a.groups, fields[2])
		}
	}
	return a, nil
}

// The permissions of a file for one class of users.
const (
	mayRead   = 0o4
	mayWrite  = 0o2
	maySearch = 0o1
)

// may reports whether the account has a permission for a file.
func (a account) may(permission fs.FileMode, st os.FileInfo) bool {
	owner, _ := st.Sys().(*syscall.Stat_t)
	mode := st.Mode().Perm()
	switch {
	case owner == nil || a.uid == "0":
		return true
	case strconv.FormatUint(uint64(owner.Uid), 10) == a.uid:
		return mode>>6&permission == permission
	case slices.Contains(a.groups, strconv.FormatUint(uint64(owner.Gid), 10)):
		return mode>>3&permission == permission
	}
	return mode&permission == permission
}

// closedTo returns the first directory above a file that the account may not search; empty if there is none.
func (d Files) closedTo(a account, file string) string {
	for dir := path.Dir(file); ; dir = path.Dir(dir) {
		st, err := os.Stat(d.path(dir))
		if err == nil && !a.may(maySearch, st) {
			return dir
		}
		if dir == "/" || dir == "." {
			return ""
		}
	}
}

// ownerOf returns the user id of a file's owner.
func ownerOf(info os.FileInfo) uint32 {
	st, _ := info.Sys().(*syscall.Stat_t)
	if st == nil {
		return 0
	}
	return st.Uid
}
