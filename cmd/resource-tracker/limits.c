// Executes the command at once, untracked, if the limits of this process are too low for the Go runtime, which
// ends the program if it cannot reserve memory, start a thread, or open two descriptors for its first timer, which
// may be its garbage collector's. The same for two variables that the runtime reads. So this is C, and runs before
// the runtime.

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

// Measured: with less address space than 2 GB, or less data than 200 MB, the runtime fails at times.
#define LEAST_ADDRESS_SPACE 4000000000ULL // bytes, RLIMIT_AS
#define LEAST_DATA 500000000ULL           // bytes, RLIMIT_DATA
#define FATAL_ADDRESS_SPACE 1000000000ULL // bytes: the runtime does not start
#define FATAL_DATA 100000000ULL           // bytes: the same
#define LEAST_THREADS 16
#define LEAST_DESCRIPTORS 32

// The exit statuses of main.go.
enum { ERROR = 1, USAGE = 2, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

// What command_at returns if it finds no command.
enum { NO_COMMAND = 0, WRONG_FLAG = -1, ONLY_PRINTS = -2 };

// The flags of commandline.go. One without a value ends in '!', and one that runs no command in '?'.
static const char *flags[] = {
	"pid", "p", "interval", "i", "config", "c", "format", "f", "dialect", "output", "o", "quiet!", "q!", "spool", "scope",
	"listen", "gpu", "path.procfs", "path.sysfs", "path.cgroupfs", "version?", "help?", "h?", "job-name", "n", "project-name",
	"stage-name", "task-name", "team", "env", "language", "orchestrator", "executor", "external-run-id", "container-image", "tag",
};

// kind_of returns '=' for a flag with a value, '!' or '?' as above, and 0 for an unknown one. word begins with a dash.
static char kind_of(const char *word) {
	word += word[1] == '-' ? 2 : 1;
	size_t length = strcspn(word, "=");
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
		size_t known = strcspn(flags[i], "!?");
		if (known == length && strncmp(word, flags[i], length) == 0)
			return flags[i][known] == 0 ? '=' : flags[i][known];
	}
	return 0;
}

// command_at returns the index of the command in argv, which is above 0, or what stands there instead.
static int command_at(int argc, char **argv) {
	int i = 1;
	for (; i < argc && argv[i][0] == '-' && argv[i][1] != 0; i++) {
		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		char kind = kind_of(argv[i]);
		if (kind == 0)
			return WRONG_FLAG;
		if (kind == '?')
			return ONLY_PRINTS;
		if (kind == '=' && strchr(argv[i], '=') == NULL)
			i++;
	}
	return i < argc ? i : NO_COMMAND;
}

static int is_below(int resource, rlim_t least) {
	struct rlimit limit;
	return getrlimit(resource, &limit) == 0 && limit.rlim_cur < least;
}

// has_descriptors checks the hard limit: the runtime raises the soft one to it.
static int has_descriptors(void) {
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max >= LEAST_DESCRIPTORS;
}

static void *wait_for(void *lock) {
	pthread_mutex_lock(lock);
	pthread_mutex_unlock(lock);
	return NULL;
}

// has_threads reports whether this process may have LEAST_THREADS threads at the same time: RLIMIT_NPROC and
// the pids controller limit them.
static int has_threads(void) {
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_t threads[LEAST_THREADS];
	pthread_attr_t attributes;
	int n = 0;
	if (pthread_attr_init(&attributes) != 0)
		return 0;
	pthread_attr_setstacksize(&attributes, 64 << 10);
	pthread_mutex_lock(&lock);
	while (n < LEAST_THREADS && pthread_create(&threads[n], &attributes, wait_for, &lock) == 0)
		n++;
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	pthread_attr_destroy(&attributes);
	return n == LEAST_THREADS;
}

// too_many_processors reports whether GOMAXPROCS, which may be meant for the command, is so high that the runtime
// takes seconds to start: its time rises with the square.
static int too_many_processors(void) {
	const char *value = getenv("GOMAXPROCS");
	return value != NULL && strtol(value, NULL, 10) > 1000;
}

// wrong_memory_limit reports whether the runtime ends the program for the form of GOMEMLIMIT: a number of bytes, with
// a unit or without.
static int wrong_memory_limit(void) {
	static const struct {
		const char *name;
		size_t most; // digits that always fit into 63 bits
	} units[] = {{"", 18}, {"B", 18}, {"KiB", 15}, {"MiB", 12}, {"GiB", 9}, {"TiB", 6}};
	const char *value = getenv("GOMEMLIMIT");
	if (value == NULL || *value == 0 || strcmp(value, "off") == 0)
		return 0;
	size_t digits = strspn(value, "0123456789");
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(value + digits, units[i].name) == 0)
			return digits == 0 || digits > units[i].most;
	return 1;
}

#define FEW_DESCRIPTORS "the limit on open files is less than 32: raise it (ulimit -n)"

// low_limit returns what is too low for a command, NULL for nothing.
static const char *low_limit(void) {
	if (is_below(RLIMIT_AS, LEAST_ADDRESS_SPACE))
		return "the limit on address space is less than 4 GB: raise it (ulimit -v)";
	if (is_below(RLIMIT_DATA, LEAST_DATA))
		return "the limit on data is less than 500 MB: raise it (ulimit -d)";
	if (!has_descriptors())
		return FEW_DESCRIPTORS;
	if (too_many_processors())
		return "GOMAXPROCS is above 1000: unset it";
	if (wrong_memory_limit())
		return "GOMEMLIMIT is not a number of bytes, such as 2GiB: correct it";
	if (!has_threads())
		return "the limit on processes does not permit 16 threads more: raise it (ulimit -u, pids.max)";
	return NULL;
}

// fatal_limit returns what is too low without a command, NULL for nothing. Few descriptors are enough to print.
static const char *fatal_limit(int only_prints) {
	if (is_below(RLIMIT_AS, FATAL_ADDRESS_SPACE) || is_below(RLIMIT_DATA, FATAL_DATA))
		return "the limit on memory is too low: raise it (ulimit -v, ulimit -d)";
	return (only_prints || has_descriptors()) ? NULL : FEW_DESCRIPTORS;
}

// say writes a line to standard error, unless that would block.
static void say(const char *text, const char *more) {
	char line[512];
	int n = snprintf(line, sizeof line, "resource-tracker: %s%s\n", text, more);
	fd_set out;
	struct timeval now = {0, 0};
	if (n >= (int)sizeof line) {
		n = sizeof line - 1;
		line[n - 1] = '\n';
	}
	FD_ZERO(&out);
	FD_SET(2, &out);
	if (select(3, NULL, &out, NULL, &now) == 1 && write(2, line, n) < 0)
		return; // there is nowhere else to say it
}

__attribute__((constructor)) static void check_limits(int argc, char **argv) {
	int at = command_at(argc, argv);
	if (at == NO_COMMAND || at == ONLY_PRINTS) {
		const char *fatal = fatal_limit(at == ONLY_PRINTS);
		if (fatal == NULL)
			return;
		say(fatal, "");
		_exit(ERROR);
	}
	const char *low = low_limit();
	if (low == NULL)
		return;
	if (at == WRONG_FLAG) {
		say("unknown flag, see --help; ", low);
		_exit(USAGE);
	}
	say("warning: the command runs untracked: ", low);
	execvp(argv[at], argv + at);
	int status = errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
	say(argv[at], status == NOT_FOUND ? ": command not found" : ": cannot be executed");
	_exit(status);
}
