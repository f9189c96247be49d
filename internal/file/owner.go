package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Foreign says how a user other than root and this process's user can write in a directory or replace it; empty if
// none can. Of a path that does not exist it checks the part that does. It returns the errors of stat(2).
func Foreign(dir string) (problem string, err error) {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err == nil {
			problem = changeable(info, at == dir)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if problem != "" {
			return at + " " + problem, nil
		}
		if at == filepath.Dir(at) {
			return "", nil
		}
	}
}

// changeable says how another user can change a directory; empty if none can. In a sticky directory, such as
// /tmp, others can create files but replace none: that matters only if the files are read from there (isLast).
func changeable(info fs.FileInfo, isLast bool) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "has no owner"
	}
	isOurs := st.Uid == 0 || int(st.Uid) == os.Geteuid()
	isOurGroup := st.Gid == 0 || int(st.Gid) == os.Getegid()
	isOfGroup := st.Mode&0o020 != 0 && !isOurGroup
	isShared := st.Mode&0o002 != 0 || isOfGroup
	isSticky := st.Mode&syscall.S_ISVTX != 0 && !isLast
	switch {
	case !isOurs:
		return fmt.Sprintf("belongs to the user id %d, not to root", st.Uid)
	case isShared && !isSticky:
		return fmt.Sprintf("can be written by users other than root (mode %04o)", st.Mode&0o7777)
	}
	return ""
}
