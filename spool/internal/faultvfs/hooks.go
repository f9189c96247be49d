package faultvfs

/*
#include "shim.h"
*/
import "C"

import (
	"syscall"
	"unsafe"
)

// The functions that the shim calls, see shim.c. A file is identified by its index in
// Disk.open, counted from 1. Each function takes the lock of the Disk.

// SQLite's results, https://www.sqlite.org/rescode.html.
const (
	sqliteFull       = 13
	sqliteCantOpen   = 14
	sqliteIOWrite    = 10 | 3<<8
	sqliteIOFsync    = 10 | 4<<8
	sqliteIOTruncate = 10 | 6<<8
	sqliteIODelete   = 10 | 10<<8
)

// Flags of an open file, https://www.sqlite.org/c3ref/c_open_autoproxy.html.
const (
	openReadWrite = 0x2
	openCreate    = 0x4
	openLogs      = 0x800 | 0x80000 // a rollback journal, a write-ahead log
)

// refuse returns the result of an operation that fails with code.
func (d *Disk) refuse(code int) C.rt_answer {
	return C.rt_answer{code: C.int(code), err: C.int(d.plan.Kind.errno())}
}

//export faultOpen
func faultOpen(name *C.char, flags C.int) C.rt_answer {
	d := watched.Load()
	path := C.GoString(name)
	if d == nil || !d.holds(path) {
		return C.rt_answer{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	what := "open"
	if flags&openCreate != 0 {
		what = "create"
	}
	if err := d.opened(path, flags&openLogs != 0 && flags&openCreate != 0); err != nil {
		return C.rt_answer{code: sqliteCantOpen, err: C.int(syscall.EIO)}
	}
	if flags&openReadWrite != 0 && d.fails(what, path) {
		return d.refuse(sqliteCantOpen)
	}
	d.open = append(d.open, path)
	return C.rt_answer{bytes: C.int(len(d.open))}
}

//export faultWrite
func faultWrite(id, n C.int) C.rt_answer {
	d := watched.Load()
	if d == nil {
		return C.rt_answer{bytes: n}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.fails("write", d.open[id-1]) {
		return C.rt_answer{bytes: n}
	}
	switch d.plan.Kind {
	case NoSpace:
		return d.refuse(sqliteFull)
	case ShortWrite:
		a := d.refuse(sqliteFull)
		a.bytes = n / 2
		return a
	}
	return d.refuse(sqliteIOWrite)
}

//export faultWrote
func faultWrote(id C.int, from unsafe.Pointer, n C.int, at C.rt_int64) {
	if d := watched.Load(); d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.files[d.open[id-1]].change(change{at: int64(at), data: C.GoBytes(from, n)})
	}
}

//export faultTruncate
func faultTruncate(id C.int) C.rt_answer { return ask("truncate", int(id), sqliteIOTruncate) }

//export faultTruncated
func faultTruncated(id C.int, size C.rt_int64) {
	if d := watched.Load(); d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.files[d.open[id-1]].change(change{at: int64(size), truncate: true})
	}
}

//export faultSync
func faultSync(id C.int) C.rt_answer {
	a := ask("sync", int(id), sqliteIOFsync)
	if d := watched.Load(); d != nil && a.code == 0 {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.synced(d.open[id-1])
	}
	return a
}

// ask returns the result of an operation without data.
func ask(what string, id, code int) C.rt_answer {
	d := watched.Load()
	if d == nil {
		return C.rt_answer{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails(what, d.open[id-1]) {
		return d.refuse(code)
	}
	return C.rt_answer{}
}

//export faultRemove
func faultRemove(name *C.char) C.rt_answer {
	d := watched.Load()
	path := C.GoString(name)
	if d == nil || !d.holds(path) {
		return C.rt_answer{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails("remove", path) {
		return d.refuse(sqliteIODelete)
	}
	return C.rt_answer{}
}

//export faultRemoved
func faultRemoved(name *C.char, sync C.int) {
	path := C.GoString(name)
	if d := watched.Load(); d != nil && d.holds(path) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.removed(path, sync != 0)
	}
}
