package proc

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/resource-tracker/rt"
)

// Where procfs hides the processes of other users, the number of the processes that are left is not the node's.
func TestHiddenProcesses(t *testing.T) {
	root := NewFS(filepath.Join(t.TempDir(), "proc"), t.TempDir())
	write(t, root.Proc+"/7/stat", "")
	var s rt.Snapshot
	if err := NewProcesses(root).Read(&s); !errors.Is(err, fs.ErrPermission) || s.Node.Processes.Valid() {
		t.Errorf("without the first process: %v processes, %v", s.Node.Processes, err)
	}
}

// The main goroutine keeps the main thread, so that no test changes the user of the process.
func init() { runtime.LockOSThread() }

// A mount with hidepid leaves the first process out of the list of another user.
func TestProcfsThatHides(t *testing.T) {
	for option, isHiding := range map[string]bool{"": false, "hidepid=1": false, "hidepid=2": true, "hidepid=ptraceable": true} {
		dir := t.TempDir()
		src := NewProcesses(NewFS(dir, dir))
		var asRoot, asOther rt.Snapshot
		var rootErr, otherErr error
		mounted := make(chan error)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
			if err == nil {
				err = unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
			}
			if err == nil {
				err = unix.Mount("proc", dir, "proc", 0, option)
			}
			if err == nil {
				rootErr = src.Read(&asRoot) // opens the directory
				err = becomeOther()
			}
			if err == nil {
				otherErr = src.Read(&asOther)
			}
			mounted <- err
		}()
		if err := <-mounted; err != nil {
			t.Skipf("%q cannot be mounted here: %v", option, err)
		}
		isShown := rootErr == nil && asRoot.Node.Processes.Valid()
		if !isShown && option != "hidepid=ptraceable" { // in a container, root may not trace the first process
			t.Errorf("%q, root: %v processes, %v", option, asRoot.Node.Processes, rootErr)
		}
		if errors.Is(otherErr, fs.ErrPermission) != isHiding || asOther.Node.Processes.Valid() == isHiding {
			t.Errorf("%q, another user: %v processes, %v", option, asOther.Node.Processes, otherErr)
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}

// becomeOther makes this thread another user's, in no group.
func becomeOther() error {
	const nobody = 65534
	for _, call := range [...][3]uintptr{{unix.SYS_SETGROUPS, 0, 0}, {unix.SYS_SETRESGID, nobody, nobody}, {unix.SYS_SETRESUID, nobody, nobody}} {
		third := call[2] // setgroups(2) has two arguments
		if _, _, errno := unix.RawSyscall(call[0], call[1], call[2], third); errno != 0 {
			return errno
		}
	}
	return nil
}
