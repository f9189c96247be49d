// The part of SQLite's interface between a database and its file system that the
// shim needs: sqlite3_vfs, sqlite3_file and sqlite3_io_methods of
// https://www.sqlite.org/c3ref/vfs.html, whose layout SQLite keeps for ever.
#ifndef RT_FAULTVFS_SHIM_H
#define RT_FAULTVFS_SHIM_H

typedef long long rt_int64;
typedef struct rt_methods rt_methods;
typedef struct rt_file { const rt_methods *methods; } rt_file;

struct rt_methods {
  int version;
  int (*close)(rt_file *);
  int (*read)(rt_file *, void *, int, rt_int64);
  int (*write)(rt_file *, const void *, int, rt_int64);
  int (*truncate)(rt_file *, rt_int64);
  int (*sync)(rt_file *, int);
  int (*size)(rt_file *, rt_int64 *);
  int (*lock)(rt_file *, int);
  int (*unlock)(rt_file *, int);
  int (*reserved)(rt_file *, int *);
  int (*control)(rt_file *, int, void *);
  int (*sector)(rt_file *);
  int (*device)(rt_file *);
  int (*shm_map)(rt_file *, int, int, int, void volatile **);
  int (*shm_lock)(rt_file *, int, int, int);
  void (*shm_barrier)(rt_file *);
  int (*shm_unmap)(rt_file *, int);
  int (*fetch)(rt_file *, rt_int64, int, void **);
  int (*unfetch)(rt_file *, rt_int64, void *);
};

typedef struct rt_vfs rt_vfs;
struct rt_vfs {
  int version, file_bytes, max_path;
  rt_vfs *next;
  const char *name;
  void *data;
  int (*open)(rt_vfs *, const char *, rt_file *, int, int *);
  int (*remove)(rt_vfs *, const char *, int);
  int (*access)(rt_vfs *, const char *, int, int *);
  int (*full_path)(rt_vfs *, const char *, int, char *);
  void *(*dl_open)(rt_vfs *, const char *);
  void (*dl_error)(rt_vfs *, int, char *);
  void (*(*dl_sym)(rt_vfs *, void *, const char *))(void);
  void (*dl_close)(rt_vfs *, void *);
  int (*randomness)(rt_vfs *, int, char *);
  int (*sleep)(rt_vfs *, int);
  int (*time)(rt_vfs *, double *);
  int (*last_error)(rt_vfs *, int, char *);
  int (*time64)(rt_vfs *, rt_int64 *);
};

// What Go answers to a question of the shim.
typedef struct rt_answer {
  int code;  // an SQLite result, 0: go on
  int err;   // the errno behind it
  int bytes; // of a write, how many bytes are written all the same
} rt_answer;

int rt_shim_install(void);
void rt_shim_remove(void);

#endif
