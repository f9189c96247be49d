package proc

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt/internal/procfile"
)

// hiddenError: procfs does not show the processes of other users to this process.
type hiddenError struct{ options string }

func (e hiddenError) Error() string {
	return fmt.Sprintf("procfs is mounted with %s, which hides the processes of other users: their number is not known", e.options)
}

// Unwrap makes the status of the sensor "denied".
func (hiddenError) Unwrap() error { return fs.ErrPermission }

// checkHidden returns a hiddenError if the procfs at root hides processes from this
// process. Then the mount has hidepid=invisible or hidepid=ptraceable (2 and 4 before Linux
// 5.8). This process lacks CAP_SYS_PTRACE, and is not in the group that sees all. See
// Documentation/filesystems/proc.rst.
func checkHidden(root string) error {
	mountinfo, err := os.ReadFile(filepath.Join(root, "self", "mountinfo"))
	if err != nil {
		return nil // a procfs of recorded files
	}
	options := ""
	for _, m := range procfile.ParseMountinfo(mountinfo) {
		if m.FSType == "proc" && m.Point == root { // the last one covers the others
			options = m.SuperOptions
		}
	}
	hide, group := "", -1
	for option := range strings.SplitSeq(options, ",") {
		switch name, value, _ := strings.Cut(option, "="); name {
		case "hidepid":
			hide = value
		case "gid":
			if gid, err := strconv.Atoi(value); err == nil {
				group = gid
			}
		}
	}
	isInvisible, isPtraceable := hide == "2" || hide == "invisible", hide == "4" || hide == "ptraceable"
	isHiding := isInvisible || isPtraceable
	isShown := isInvisible && hasGroup(group)
	if !isHiding || isShown || canTrace(root) {
		return nil
	}
	return hiddenError{"hidepid=" + hide}
}

// hasGroup reports whether this process is in a group. Without the option gid it is the group 0.
func hasGroup(gid int) bool {
	gid = max(gid, 0)
	if unix.Getegid() == gid {
		return true
	}
	groups, err := unix.Getgroups()
	return err == nil && slices.Contains(groups, gid)
}

// canTrace reports whether this process has CAP_SYS_PTRACE: CapEff of proc_pid_status(5).
func canTrace(root string) bool {
	const capability = 19
	status, err := os.ReadFile(filepath.Join(root, "self", "status"))
	if err != nil {
		return false
	}
	_, rest, _ := bytes.Cut(status, []byte("\nCapEff:"))
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	effective, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err == nil && effective>>capability&1 == 1
}
