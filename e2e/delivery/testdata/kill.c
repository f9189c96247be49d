// Loaded with LD_PRELOAD into rt-spool, where only SQLite changes files through the C
// library: counts these changes, and kills the process at one of them, in the middle of it
// if it is a write.
//
// KILL_FILE  a file of 8 bytes, in which the changes are counted
// KILL_AT    the number of the change to die at; 0 for none
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static uint64_t *count;
static uint64_t at;

__attribute__((constructor)) static void start(void) {
	const char *file = getenv("KILL_FILE"), *n = getenv("KILL_AT");
	int fd = file ? open(file, O_RDWR) : -1;
	if (fd < 0)
		return;
	void *p = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p == MAP_FAILED)
		return;
	count = p;
	at = n ? strtoull(n, NULL, 10) : 0;
}

// die reports whether the process ends at this change.
static int die(void) {
	return count && __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST) == at;
}

static void now(void) {
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

#define REAL(name) \
	static __typeof__(&name) real; \
	if (!real) \
		real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

#define WRITE(name, offset) \
	ssize_t name(int fd, const void *buf, size_t n, offset at) { \
		REAL(name); \
		if (die()) { \
			real(fd, buf, n / 2, at); \
			now(); \
		} \
		return real(fd, buf, n, at); \
	}

#define CHANGE(name, parameters, ...) \
	int name parameters { \
		REAL(name); \
		if (die()) \
			now(); \
		return real(__VA_ARGS__); \
	}

WRITE(pwrite, off_t)
WRITE(pwrite64, off64_t)
CHANGE(fsync, (int fd), fd)
CHANGE(fdatasync, (int fd), fd)
CHANGE(ftruncate, (int fd, off_t n), fd, n)
CHANGE(ftruncate64, (int fd, off64_t n), fd, n)
CHANGE(unlink, (const char *path), path)
