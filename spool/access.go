package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"github.com/resource-tracker/rt"
)

// Access says who may read a run that has ended, beside the owner of its file and
// root. Nobody else may, and nobody but these two may write. The zero value is nobody.
type Access struct {
	Owner bool           // the user whose job it was (rt.Run.UID)
	Group rt.Opt[uint64] // the members of this group
}

// Entries of a POSIX access control list as the kernel takes them in the extended
// attribute, see acl(5): version 2, then tag, permission and id of each, by tag.
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
	aclNobody         = 0xffffffff // the id of an entry that has none
)

// acl is the list for a file of the given access; nil where it has nobody to name.
func (a Access) acl(uid rt.Opt[uint64]) []byte {
	owner, named := uid.Get()
	group, shared := a.Group.Get()
	if named = named && a.Owner && owner != 0; !named && !shared {
		return nil
	}
	list := binary.LittleEndian.AppendUint32(nil, aclVersion)
	add := func(tag, permission uint16, id uint64) {
		list = binary.LittleEndian.AppendUint16(list, tag)
		list = binary.LittleEndian.AppendUint16(list, permission)
		list = binary.LittleEndian.AppendUint32(list, uint32(id))
	}
	add(aclUserObj, aclRead|aclWrite, aclNobody)
	if named {
		add(aclUser, aclRead, owner)
	}
	add(aclGroupObj, 0, aclNobody)
	if shared {
		add(aclGroup, aclRead, group)
	}
	add(aclMask, aclRead, aclNobody)
	add(aclOther, 0, aclNobody)
	return list
}

// grant lets those of a read the file at path, which this process must own. It
// opens nothing, see DESIGN.md, and follows no link.
func (a Access) grant(path string, run *rt.Run) error {
	list := a.acl(run.UID)
	if list == nil {
		return nil
	}
	err := lsetxattr(path, aclAttribute, list)
	if errors.Is(err, syscall.ENOTSUP) {
		return fmt.Errorf("who may read %s: its file system has no POSIX ACLs (%w): only root and the spool's owner can read the run; set spool.access = \"root\" where that is meant", path, err)
	}
	if err != nil {
		return fmt.Errorf("who may read %s: %w", path, err)
	}
	return nil
}

// lsetxattr is lsetxattr(2), which package syscall lacks.
func lsetxattr(path, name string, value []byte) error {
	p, err := syscall.BytePtrFromString(path)
	if err != nil {
		return err
	}
	n, err := syscall.BytePtrFromString(name)
	if err != nil {
		return err
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_LSETXATTR, uintptr(unsafe.Pointer(p)), uintptr(unsafe.Pointer(n)),
		uintptr(unsafe.Pointer(unsafe.SliceData(value))), uintptr(len(value)), 0, 0)
	if errno != 0 {
		return os.NewSyscallError("lsetxattr", errno)
	}
	return nil
}

// Grant lets those of a read the run, which has ended; its file must be this user's.
func (r *Reader) Grant(a Access) error { return a.grant(r.path, &r.run) }

// trusted refuses a file that somebody else has put into the directory: it must
// belong to the directory's owner, to root or to this user.
func trusted(path string, st fs.FileInfo) error {
	file, ok := st.Sys().(*syscall.Stat_t)
	if !ok || file.Uid == 0 || int(file.Uid) == os.Geteuid() {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("open the spool file: %w", err)
	}
	if owner, ok := dir.Sys().(*syscall.Stat_t); ok && owner.Uid != file.Uid {
		return fmt.Errorf("%s: %w: it belongs to uid %d, the directory to uid %d; a tracker has not written it there",
			path, ErrForeign, file.Uid, owner.Uid)
	}
	return nil
}

// unchanged says that the file at path is still the one that was looked at: SQLite
// opens it by its name.
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
