package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/resource-tracker/rt/cmd/internal/config"
)

// Files are the files of the machine.
type Files struct {
	Root  string // of the file system, "/" except in tests
	Admin uint32 // the user id that must own hooks and directories: 0 except in tests
}

// path returns a path below the root of the file system.
func (d Files) path(name string) string { return filepath.Join(d.Root, name) }

func (d Files) exists(name string) bool {
	if name == "" {
		return false
	}
	_, err := os.Stat(d.path(name))
	return err == nil
}

// read returns the content of a file without leading and trailing blanks.
func (d Files) read(name string) (string, error) {
	text, err := os.ReadFile(d.path(name))
	return strings.TrimSpace(string(text)), err
}

// hookFiles returns the files of one entry of Prolog or Epilog: a file, a pattern or a directory.
func (d Files) hookFiles(value string) []string {
	pattern := d.path(value)
	if st, err := os.Stat(pattern); err == nil && st.IsDir() {
		pattern = filepath.Join(pattern, "*")
	}
	found, _ := filepath.Glob(pattern) // it fails for a bad pattern, which names no file
	for i := range found {
		found[i] = "/" + strings.TrimPrefix(strings.TrimPrefix(found[i], d.Root), "/")
	}
	return found
}

// unsafe returns what lets a user other than root change a file: the file itself, or a directory above it.
func (d Files) unsafe(file string) (problem, fix string) {
	for at := file; ; at = path.Dir(at) {
		st, err := os.Stat(d.path(at))
		if err != nil {
			return "", ""
		}
		uid := ownerOf(st)
		isShared := st.Mode().Perm()&0o022 != 0 && st.Mode()&fs.ModeSticky == 0
		switch {
		case uid != d.Admin:
			return fmt.Sprintf("%s belongs to the user id %d, not to root", at, uid), "chown root: " + at
		case isShared:
			return fmt.Sprintf("%s can be written by users other than root (mode %04o)", at, st.Mode().Perm()), "chmod go-w " + at
		}
		if at == "/" || at == "." {
			return "", ""
		}
	}
}

// fileRule says who may open a file, and what follows otherwise.
type fileRule struct {
	name, file      string
	missing, create string      // what follows if it cannot be read, and how to create it
	forbidden       fs.FileMode // permissions that it must not have
	exposed, fix    string      // what follows if it has one, and how to fix it
}

// checkFile reports whether a file is there and has no forbidden permission. It adds a check only if not.
func (d *Doctor) checkFile(r fileRule) bool {
	st, err := os.Stat(d.path(r.file))
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.add(unknown(r.name, err))
	case err != nil:
		d.add(fail(r.name, err.Error(), r.missing, r.create))
	case st.Mode().Perm()&r.forbidden != 0:
		d.add(fail(r.name, fmt.Sprintf("%s can be %s (mode %04o)", r.file, r.access(), st.Mode().Perm()), r.exposed, r.fix))
	default:
		return true
	}
	return false
}

// access describes the forbidden permissions.
func (r *fileRule) access() string {
	switch r.forbidden {
	case 0o002:
		return "written by all users"
	case 0o022:
		return "written by other users"
	}
	return "read or written by all users"
}

// checkExecutable checks a file that root runs.
func (d *Doctor) checkExecutable(name, file string) {
	st, err := os.Stat(d.path(file))
	switch {
	case errors.Is(err, fs.ErrPermission):
		d.add(unknown(name, err))
		return
	case err != nil:
		d.add(fail(name, fmt.Sprintf("%s does not exist", file), "no job of this node is tracked", "install the package rt, or run make install"))
		return
	case st.Mode()&0o111 == 0:
		d.add(fail(name, fmt.Sprintf("%s is not executable (mode %04o)", file, st.Mode().Perm()), "Slurm drains the node, or no job is tracked", "chmod 755 "+file))
	}
	if problem, fix := d.unsafe(file); problem != "" {
		d.add(fail(name, problem, "another user can run programs as root", fix))
	}
}

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
