/*
 * floor: what a reading of the node costs a C program.
 *
 *     floor [-n READINGS] [-i SECONDS] [CGROUP_DIRECTORY | FILE ...]
 *
 * It holds open the files that the node's sources read (/proc/stat, meminfo,
 * net/dev, diskstats and the directory /proc itself), reads and parses all of
 * them in a tight loop, and prints nanoseconds per reading. For each directory of
 * a cgroup it reads that cgroup's files too, as far as they exist (v1: give the
 * directory in each hierarchy), and each file that is given. It is the measure for
 * BenchmarkSnapshot. With -i it prints the number of open files, reads them once in so
 * many seconds and never ends.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char buf[1 << 20];
static volatile uint64_t sink; /* keeps the parsers from being optimized away */

static size_t slurp(int fd)
{
	size_t n = 0;
	ssize_t k;

	while (n < sizeof buf && (k = pread(fd, buf + n, sizeof buf - n, (off_t)n)) > 0)
		n += (size_t)k;
	return n;
}

/* numbers adds up the decimal numbers of a line, from p on, and returns its end. */
static const char *numbers(const char *p, const char *end, uint64_t *sum)
{
	while (p < end && *p != '\n') {
		if (*p >= '0' && *p <= '9') {
			uint64_t v = 0;

			while (p < end && *p >= '0' && *p <= '9')
				v = v * 10 + (uint64_t)(*p++ - '0');
			*sum += v;
		} else {
			p++;
		}
	}
	return p;
}

static void parse_stat(size_t n)
{
	const char *p = buf, *end = buf + n;
	uint64_t sum = 0;

	while (p + 3 < end && memcmp(p, "cpu", 3) == 0) {
		while (p < end && *p != ' ')
			p++;
		p = numbers(p, end, &sum);
		p++;
	}
	sink += sum;
}

static void parse_keys(size_t n)
{
	static const char *const keys[] = {
		"MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SReclaimable",
		"Shmem", "Active", "Inactive", "SwapTotal", "SwapFree",
	};
	const char *p = buf, *end = buf + n;
	uint64_t sum = 0;

	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));
		const char *colon;
		size_t i;

		if (!nl)
			nl = end;
		colon = memchr(p, ':', (size_t)(nl - p));
		if (colon)
			for (i = 0; i < sizeof keys / sizeof keys[0]; i++)
				if (strlen(keys[i]) == (size_t)(colon - p) && memcmp(keys[i], p, (size_t)(colon - p)) == 0) {
					numbers(colon, nl, &sum);
					break;
				}
		p = nl + 1;
	}
	sink += sum;
}

static void parse_all(size_t n)
{
	const char *p = buf, *end = buf + n;
	uint64_t sum = 0;

	while (p < end)
		p = numbers(p, end, &sum) + 1;
	sink += sum;
}

static void count_processes(int fd)
{
	long n, at;

	lseek(fd, 0, SEEK_SET);
	while ((n = syscall(SYS_getdents64, fd, buf, 32768L)) > 0)
		for (at = 0; at < n;) {
			const struct dirent64 *d = (const void *)(buf + at);

			sink += isdigit((unsigned char)d->d_name[0]) != 0;
			at += d->d_reclen;
		}
}

static int must_open(const char *path, int flags)
{
	int fd = open(path, flags | O_RDONLY | O_CLOEXEC);

	if (fd < 0) {
		perror(path);
		exit(1);
	}
	return fd;
}

static int files[4096], nfiles;

static void add(int fd)
{
	if (fd >= 0 && nfiles < (int)(sizeof files / sizeof files[0]))
		files[nfiles++] = fd;
}

/* add_argument opens a file, or the known files of a cgroup's directory. */
static void add_argument(const char *arg)
{
	static const char *const cgroup_files[] = {
		"cpu.stat", "memory.current", "memory.peak", "memory.max", "memory.swap.current", "memory.stat",
		"memory.events", "pids.current", "io.stat",
		"cpuacct.usage", "cpuacct.usage_user", "cpuacct.usage_sys", "memory.usage_in_bytes",
		"memory.max_usage_in_bytes", "memory.oom_control", "memory.failcnt",
	};
	int dir = open(arg, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t i;

	if (dir < 0) {
		add(must_open(arg, 0));
		return;
	}
	for (i = 0; i < sizeof cgroup_files / sizeof cgroup_files[0]; i++)
		add(openat(dir, cgroup_files[i], O_RDONLY | O_CLOEXEC));
	close(dir);
}

static int stat, meminfo, net, disks, proc;

static void reading(void)
{
	int i;

	parse_stat(slurp(stat));
	count_processes(proc);
	parse_keys(slurp(meminfo));
	parse_all(slurp(net));
	parse_all(slurp(disks));
	for (i = 0; i < nfiles; i++)
		parse_all(slurp(files[i]));
}

static void at_interval(long seconds)
{
	struct timespec next;

	printf("%d files\n", nfiles + 5);
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (;;) {
		reading();
		next.tv_sec += seconds;
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}

int main(int argc, char **argv)
{
	long readings = 20000, interval = 0, r;
	struct timespec t0, t1;
	int opt;

	while ((opt = getopt(argc, argv, "n:i:")) != -1) {
		long value = opt == '?' ? 0 : atol(optarg);

		if (value <= 0) {
			fprintf(stderr, "usage: floor [-n READINGS] [-i SECONDS] [CGROUP_DIRECTORY | FILE ...]\n");
			return 2;
		}
		*(opt == 'n' ? &readings : &interval) = value;
	}
	stat = must_open("/proc/stat", 0);
	meminfo = must_open("/proc/meminfo", 0);
	net = must_open("/proc/net/dev", 0);
	disks = must_open("/proc/diskstats", 0);
	proc = must_open("/proc", O_DIRECTORY);
	for (; optind < argc; optind++)
		add_argument(argv[optind]);
	if (interval > 0)
		at_interval(interval);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	for (r = 0; r < readings; r++)
		reading();
	clock_gettime(CLOCK_MONOTONIC, &t1);
	printf("%.0f ns per reading of the node%s\n",
	       ((double)(t1.tv_sec - t0.tv_sec) * 1e9 + (double)(t1.tv_nsec - t0.tv_nsec)) / (double)readings,
	       nfiles ? " and a cgroup" : "");
	return 0;
}
