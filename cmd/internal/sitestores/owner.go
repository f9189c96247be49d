package sitestores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/internal/errkind"
)

// ErrOtherUser means that the files of a site belong to another user.
var ErrOtherUser = errors.New("the files of the site belong to another user")

// ownedFile returns the file whose owner is the user of a site; empty if the site has none on this machine.
func ownedFile(s config.Serve) string {
	switch {
	case s.Database == "":
		return filepath.Join(s.Dir, "registry.db")
	case s.Objects == "":
		return s.Dir
	}
	return ""
}

// CheckDir checks that the files of a site are there, and that they belong to the user of this process.
func CheckDir(s config.Serve) error {
	path := ownedFile(s)
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrPermission) {
		return errkind.With(ErrOtherUser, fmt.Errorf("%w: run this as the user of the service", err))
	}
	if err != nil {
		return fmt.Errorf("there is no site at serve.dir: %w; set serve.dir as rt-site serve has it, or give --dir", err)
	}
	if err := CheckOwner(path, info, os.Geteuid()); err != nil {
		return err
	}
	if s.Objects != "" {
		return nil
	}
	_, err = os.Stat(filepath.Join(s.Dir, "objects"))
	if errors.Is(err, fs.ErrNotExist) {
		return Misconfigured(fmt.Errorf("there are no objects at serve.dir: %w; set serve.dir and serve.objects as rt-site serve has them, or give --dir", err))
	}
	return err
}

// CheckOwner checks that a file belongs to a user.
func CheckOwner(path string, info fs.FileInfo, uid int) error {
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	if owner == uid {
		return nil
	}
	name := strconv.Itoa(owner)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return errkind.With(ErrOtherUser, fmt.Errorf("%s belongs to the user %[2]s: run this as that user, which root does with runuser -u %[2]s", path, name))
}

// BecomeOwner makes root the owner of the files of a site, for the rest of the process. The service could not write what
// root makes there.
func BecomeOwner(s config.Serve) error {
	info, err := os.Stat(ownedFile(s))
	if err != nil {
		return nil // CheckDir reports it
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	gid := int(owner.Gid)
	err = errors.Join(syscall.Setgroups([]int{gid}), syscall.Setgid(gid), syscall.Setuid(int(owner.Uid)))
	if err != nil {
		return fmt.Errorf("become the owner of %s: %w", ownedFile(s), err)
	}
	return nil
}
