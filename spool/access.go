package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// Access lists the users that may read a run, in addition to root and the owner of its file.
// Only root and the owner may write. The zero value adds no user.
type Access struct {
	Owner bool           // the user of the job (rt.Run.UID)
	Group rt.Opt[uint64] // the members of this group
}

// A POSIX access control list in an extended attribute, see acl(5). It is version 2, then tag,
// permission and id of each entry, sorted by tag.
const (
	aclAttribute = "system.posix_acl_access"
	aclVersion   = 2

	aclUserObj  = 0x01
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20

	aclRead, aclWrite = 4, 2
	aclNoID           = 0xffffffff // the id of an entry that has none
)

// acl returns the list for a file with this access; nil if it names no user and no group.
func (a Access) acl(uid rt.Opt[uint64]) []byte {
	owner, named := uid.Get()
	group, shared := a.Group.Get()
	named = named && a.Owner && owner != 0
	if !named && !shared {
		return nil
	}
	list := binary.LittleEndian.AppendUint32(nil, aclVersion)
	add := func(tag, permission uint16, id uint64) {
		list = binary.LittleEndian.AppendUint16(list, tag)
		list = binary.LittleEndian.AppendUint16(list, permission)
		list = binary.LittleEndian.AppendUint32(list, uint32(id))
	}
	add(aclUserObj, aclRead|aclWrite, aclNoID)
	if named {
		add(aclUser, aclRead, owner)
	}
	add(aclGroupObj, 0, aclNoID)
	if shared {
		add(aclGroup, aclRead, group)
	}
	add(aclMask, aclRead, aclNoID)
	add(aclOther, 0, aclNoID)
	return list
}

// grant permits the users of a to read the file at path and its log. This process must own both.
// grant follows no link and does not open the files, see DESIGN.md.
func (a Access) grant(path string, run *rt.Run) error {
	list := a.acl(run.UID)
	if list == nil {
		return nil
	}
	err := lsetxattr(path, aclAttribute, list)
	if err == nil {
		err = lsetxattr(path+"-wal", aclAttribute, list)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a run that has ended has no log
	}
	if errors.Is(err, syscall.ENOTSUP) {
		return fmt.Errorf("set the access of %s: its file system has no POSIX ACLs (%w): only root and the owner of the spool can read the run; set spool.access = \"root\" if that is intended", path, err)
	}
	if err != nil {
		return fmt.Errorf("set the access of %s: %w", path, err)
	}
	return nil
}

// lsetxattr calls lsetxattr(2), which does not open the file.
func lsetxattr(path, name string, value []byte) error {
	return os.NewSyscallError("lsetxattr", unix.Lsetxattr(path, name, value, 0))
}

// Grant permits the users of a to read the run. The run must have ended, and this user must own
// its file.
func (r *Reader) Grant(a Access) error { return a.grant(r.path, &r.run) }

// checkSource returns ErrForeign if another user may have put the file into its directory. It
// accepts what CheckOwner accepts. In a directory that only root or this user can write, it accepts
// any file, because a copied file may keep its owner.
func checkSource(path string, st fs.FileInfo) error {
	err := checkOwner(path, st)
	if err == nil {
		return nil
	}
	dir, statErr := os.Stat(filepath.Dir(path))
	if statErr != nil {
		return err
	}
	owner, ok := dir.Sys().(*syscall.Stat_t)
	isOurs := ok && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid())
	if isOurs && dir.Mode().Perm()&0o022 == 0 {
		return nil
	}
	return err
}

// CheckOwner returns ErrForeign if the file belongs neither to root, nor to this user, nor to the
// owner of its directory. Another user may have written it, so it must not be changed.
func CheckOwner(path string) error {
	st, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("check the owner of the spool file: %w", err)
	}
	return checkOwner(path, st)
}

func checkOwner(path string, st fs.FileInfo) error {
	file, ok := st.Sys().(*syscall.Stat_t)
	if !ok || file.Uid == 0 || int(file.Uid) == os.Geteuid() {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("open the spool file: %w", err)
	}
	if owner, ok := dir.Sys().(*syscall.Stat_t); ok && owner.Uid != file.Uid {
		return fmt.Errorf("%s: %w: it belongs to uid %d, the directory to uid %d: no tracker wrote it",
			path, ErrForeign, file.Uid, owner.Uid)
	}
	return nil
}

// unchanged returns an error if the file at path is not the file before. SQLite opens a file by
// its name, and the file may be replaced between the check and the opening.
func unchanged(path string, before fs.FileInfo) error {
	now, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("open the spool file: %w", err)
	}
	if !os.SameFile(before, now) {
		return fmt.Errorf("%s: %w: it was replaced while it was opened", path, ErrForeign)
	}
	return nil
}
