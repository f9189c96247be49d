#include <stddef.h>

#include "shim.h"
#include "_cgo_export.h"

// SQLite is in the program that is tested; weak, so that this package links alone.
extern rt_vfs *sqlite3_vfs_find(const char *) __attribute__((weak));
extern int sqlite3_vfs_register(rt_vfs *, int) __attribute__((weak));
extern int sqlite3_vfs_unregister(rt_vfs *) __attribute__((weak));

static rt_vfs *real; // the file system below
static int last_error; // errno of the last fault that was not returned yet

// shim is an open file; the real one follows it in memory.
typedef struct shim {
  rt_file base;
  int id; // 0: nobody watches it
} shim;

#define REAL(f) ((rt_file *)((shim *)(f) + 1))
#define BELOW(f) REAL(f)->methods

static int answered(rt_answer a) {
  if (a.code != 0) last_error = a.err;
  return a.code;
}

static int shim_close(rt_file *f) { return BELOW(f)->close(REAL(f)); }

static int shim_read(rt_file *f, void *to, int n, rt_int64 at) { return BELOW(f)->read(REAL(f), to, n, at); }

static int shim_write(rt_file *f, const void *from, int n, rt_int64 at) {
  int id = ((shim *)f)->id;
  if (id == 0) return BELOW(f)->write(REAL(f), from, n, at);
  rt_answer a = faultWrite(id, n);
  if (a.bytes > 0) {
    int rc = BELOW(f)->write(REAL(f), from, a.bytes, at);
    if (rc != 0) return rc;
    faultWrote(id, (void *)from, a.bytes, at);
  }
  return answered(a);
}

static int shim_truncate(rt_file *f, rt_int64 size) {
  int id = ((shim *)f)->id;
  if (id == 0) return BELOW(f)->truncate(REAL(f), size);
  rt_answer a = faultTruncate(id);
  if (a.code != 0) return answered(a);
  int rc = BELOW(f)->truncate(REAL(f), size);
  if (rc == 0) faultTruncated(id, size);
  return rc;
}

// What is synced is what Go remembers: the disk below is left in peace.
static int shim_sync(rt_file *f, int flags) {
  int id = ((shim *)f)->id;
  return id == 0 ? BELOW(f)->sync(REAL(f), flags) : answered(faultSync(id));
}

static int shim_size(rt_file *f, rt_int64 *n) { return BELOW(f)->size(REAL(f), n); }
static int shim_lock(rt_file *f, int l) { return BELOW(f)->lock(REAL(f), l); }
static int shim_unlock(rt_file *f, int l) { return BELOW(f)->unlock(REAL(f), l); }
static int shim_reserved(rt_file *f, int *out) { return BELOW(f)->reserved(REAL(f), out); }
static int shim_control(rt_file *f, int op, void *arg) { return BELOW(f)->control(REAL(f), op, arg); }
static int shim_sector(rt_file *f) { return BELOW(f)->sector(REAL(f)); }
static int shim_device(rt_file *f) { return BELOW(f)->device(REAL(f)); }
static int shim_shm_map(rt_file *f, int page, int size, int extend, void volatile **out) {
  return BELOW(f)->shm_map(REAL(f), page, size, extend, out);
}
static int shim_shm_lock(rt_file *f, int at, int n, int flags) { return BELOW(f)->shm_lock(REAL(f), at, n, flags); }
static void shim_shm_barrier(rt_file *f) { BELOW(f)->shm_barrier(REAL(f)); }
static int shim_shm_unmap(rt_file *f, int remove) { return BELOW(f)->shm_unmap(REAL(f), remove); }

// Version 2: without the mapping of pages into memory, past which nothing would be seen.
static const rt_methods methods = {
  2, shim_close, shim_read, shim_write, shim_truncate, shim_sync, shim_size, shim_lock, shim_unlock, shim_reserved,
  shim_control, shim_sector, shim_device, shim_shm_map, shim_shm_lock, shim_shm_barrier, shim_shm_unmap, NULL, NULL,
};

static int vfs_open(rt_vfs *v, const char *name, rt_file *f, int flags, int *out) {
  (void)v;
  f->methods = NULL;
  REAL(f)->methods = NULL;
  ((shim *)f)->id = 0;
  if (name != NULL) {
    rt_answer a = faultOpen((char *)name, flags);
    if (a.code != 0) return answered(a);
    ((shim *)f)->id = a.bytes;
  }
  int rc = real->open(real, name, REAL(f), flags, out);
  if (REAL(f)->methods != NULL) f->methods = &methods;
  return rc;
}

static int vfs_remove(rt_vfs *v, const char *name, int sync) {
  (void)v;
  rt_answer a = faultRemove((char *)name);
  if (a.code != 0) return answered(a);
  int rc = real->remove(real, name, sync);
  if (rc == 0) faultRemoved((char *)name, sync);
  return rc;
}

static int vfs_last_error(rt_vfs *v, int n, char *text) {
  (void)v;
  int e = last_error;
  last_error = 0;
  return e != 0 ? e : real->last_error(real, n, text);
}

static int vfs_access(rt_vfs *v, const char *name, int flags, int *out) { (void)v; return real->access(real, name, flags, out); }
static int vfs_full_path(rt_vfs *v, const char *name, int n, char *out) { (void)v; return real->full_path(real, name, n, out); }
static int vfs_randomness(rt_vfs *v, int n, char *out) { (void)v; return real->randomness(real, n, out); }
static int vfs_sleep(rt_vfs *v, int us) { (void)v; return real->sleep(real, us); }
static int vfs_time(rt_vfs *v, double *out) { (void)v; return real->time(real, out); }
static int vfs_time64(rt_vfs *v, rt_int64 *out) { (void)v; return real->time64(real, out); }

static rt_vfs fault = {
  2, 0, 0, NULL, "rt-fault", NULL, vfs_open, vfs_remove, vfs_access, vfs_full_path, NULL, NULL, NULL, NULL,
  vfs_randomness, vfs_sleep, vfs_time, vfs_last_error, vfs_time64,
};

// rt_shim_install puts the shim in the place of SQLite's own file system; 0: there is no SQLite.
int rt_shim_install(void) {
  if (sqlite3_vfs_find == NULL || sqlite3_vfs_register == NULL) return 0;
  real = sqlite3_vfs_find(NULL);
  if (real == NULL) return 0;
  fault.file_bytes = (int)sizeof(shim) + real->file_bytes;
  fault.max_path = real->max_path;
  return sqlite3_vfs_register(&fault, 1) == 0;
}

void rt_shim_remove(void) { sqlite3_vfs_unregister(&fault); }
