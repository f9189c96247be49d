// Package faultvfs puts a Disk of a test between SQLite and the real files. The Disk decides which
// operations fail, and learns what is written and synced. Only tests import it, and cgo cannot be
// in a test file. It does not see changes that a program makes without SQLite.
package faultvfs

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Answer is what becomes of an operation.
type Answer struct {
	Code  int           // SQLite's result, https://www.sqlite.org/rescode.html; 0: it is done
	Errno syscall.Errno // of a failure
	Bytes int           // of a write: how many are written; of Open: the number of the file, 0 if it is not on the Disk
}

// Disk gets the operations of SQLite, from any thread. Open numbers the files from 1.
type Disk interface {
	Open(path string, flags int) Answer // flags: https://www.sqlite.org/c3ref/c_open_autoproxy.html
	Write(file, bytes int) Answer
	Wrote(file int, data []byte, at int64)
	Truncate(file int) Answer
	Truncated(file int, size int64)
	Sync(file int) Answer
	Remove(path string) Answer
	Removed(path string, sync bool)
}

// watched is the disk that the shim uses.
var watched atomic.Pointer[Disk]

// Install makes SQLite ask d about all files that are opened from now on. There is one such
// disk at a time.
func Install(d Disk) error {
	if !watched.CompareAndSwap(nil, &d) {
		return errors.New("another disk is installed")
	}
	if C.rt_shim_install() == 0 {
		watched.Store(nil)
		return errors.New("the program does not contain SQLite")
	}
	return nil
}

// Remove restores SQLite's own file system. All databases must be closed.
func Remove() {
	C.rt_shim_remove()
	watched.Store(nil)
}

// ask returns the answer of the disk, without one def.
func ask(def Answer, question func(Disk) Answer) C.rt_answer {
	if d := watched.Load(); d != nil {
		def = question(*d)
	}
	return C.rt_answer{code: C.int(def.Code), err: C.int(def.Errno), bytes: C.int(def.Bytes)}
}

// The functions that the shim calls, see shim.c.

//export faultOpen
func faultOpen(name *C.char, flags C.int) C.rt_answer {
	return ask(Answer{}, func(d Disk) Answer { return d.Open(C.GoString(name), int(flags)) })
}

//export faultWrite
func faultWrite(file, n C.int) C.rt_answer {
	return ask(Answer{Bytes: int(n)}, func(d Disk) Answer { return d.Write(int(file), int(n)) })
}

//export faultWrote
func faultWrote(file C.int, from unsafe.Pointer, n C.int, at C.rt_int64) {
	if d := watched.Load(); d != nil {
		(*d).Wrote(int(file), C.GoBytes(from, n), int64(at))
	}
}

//export faultTruncate
func faultTruncate(file C.int) C.rt_answer {
	return ask(Answer{}, func(d Disk) Answer { return d.Truncate(int(file)) })
}

//export faultTruncated
func faultTruncated(file C.int, size C.rt_int64) {
	if d := watched.Load(); d != nil {
		(*d).Truncated(int(file), int64(size))
	}
}

//export faultSync
func faultSync(file C.int) C.rt_answer {
	return ask(Answer{}, func(d Disk) Answer { return d.Sync(int(file)) })
}

//export faultRemove
func faultRemove(name *C.char) C.rt_answer {
	return ask(Answer{}, func(d Disk) Answer { return d.Remove(C.GoString(name)) })
}

//export faultRemoved
func faultRemoved(name *C.char, sync C.int) {
	if d := watched.Load(); d != nil {
		(*d).Removed(C.GoString(name), sync != 0)
	}
}
