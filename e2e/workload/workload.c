/*
 * workload: a job of known size. It uses a given amount of CPU time, touches a
 * given amount of memory, writes and reads a given number of bytes, and at its end
 * writes the kernel's accounting (getrusage, /proc/self/io) of itself and of every
 * process that it waited for.
 *
 *   workload [--cpu SECONDS] [--threads N] [--forks N] [--bursts N] [--touch MIB] [--shm MIB]
 *            [--write MIB] [--read MIB] [--file PATH] [--hold SECONDS] [--exit STATUS]
 *            [--daemon DIR] [-- COMMAND ARG...]
 *
 * --cpu is the CPU time of each of the --threads, one by default. A fork and a burst
 * use 1.5 ms each: a fork in a process of its own, a burst before a short sleep.
 * --write and --read bypass the page cache (O_DIRECT).
 *
 * A child does the work or runs COMMAND, so that an end by a signal, also that
 * of the OOM killer, is still reported. With RT_TRUTH=DIR in the environment, and
 * only for the outermost workload of a process tree, one JSON file appears in DIR.
 * With --daemon a process in a session of its own, which no process waits for, does the
 * work and reports it in DIR; the workload itself ends at once.
 * SIGTERM is passed on to the child. The exit status is the child's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const long mib = 1 << 20;
static double cpu_secs, hold_secs;
static double threads = 1, forks, bursts, touch_mib, shm_mib, write_mib, read_mib, exit_status;
static const char *data_file, *daemon_dir;
static char **command;
static volatile long *touched_bytes; /* shared with the child */
static volatile pid_t child;
static struct rusage began; /* what this process had used before exec, as slurmstepd */

static void fail(const char *what) {
    fprintf(stderr, "workload: %s: %s\n", what, strerror(errno));
    exit(125);
}

static void forward(int sig) {
    if (child > 0) kill(child, sig);
}

static void pause_for(double secs) {
    struct timespec t = {(time_t)secs, (long)((secs - (time_t)secs) * 1e9)};
    while (nanosleep(&t, &t) == -1 && errno == EINTR) {}
}

/* Uses CPU time until the calling thread has used as much. */
static void burn_until(double secs) {
    volatile unsigned long x = 1;
    struct timespec t;
    do {
        for (int i = 0; i < 2000; i++) x = x * 2862933555777941757UL + 3037000493UL;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_sec + t.tv_nsec / 1e9 < secs);
}

static void burst(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    burn_until(t.tv_sec + t.tv_nsec / 1e9 + 0.0015);
}

static void *thread(void *unused) {
    burn_until(cpu_secs);
    return unused;
}

static void run_threads(void) {
    pthread_t others[64];
    const int n = threads < 1 ? 1 : threads > 64 ? 64 : (int)threads;
    for (int i = 1; i < n; i++)
        if ((errno = pthread_create(&others[i], NULL, thread, NULL)) != 0) fail("pthread_create");
    burn_until(cpu_secs);
    for (int i = 1; i < n; i++) pthread_join(others[i], NULL);
}

static void fork_once(void) {
    int status;
    pid_t pid = fork();
    if (pid == -1) fail("fork");
    if (pid == 0) {
        burst();
        _exit(0);
    }
    if (waitpid(pid, &status, 0) == -1) fail("wait");
}

/* Touches memory: private pages in blocks of 1 MiB, or shared pages that stay until the end. */
static void touch(long n, int flags) {
    const long page = sysconf(_SC_PAGESIZE);
    for (long m = 0; m < n; m++) {
        char *block = mmap(NULL, mib, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) fail("mmap");
        for (long i = 0; i < mib; i += page) {
            block[i] = 1;
            *touched_bytes += page;
        }
    }
}

/* Writes or reads a file in blocks of 1 MiB, not through the page cache. */
static void transfer(long n, int flags) {
    void *block;
    int fd;
    if (n == 0) return;
    if ((errno = posix_memalign(&block, mib, mib)) != 0) fail("posix_memalign");
    memset(block, 1, mib);
    if ((fd = open(data_file, flags | O_DIRECT, 0644)) == -1) fail(data_file);
    for (long m = 0; m < n; m++) {
        ssize_t done = flags & O_WRONLY ? write(fd, block, mib) : read(fd, block, mib);
        if (done != mib) fail(data_file);
    }
    if (close(fd) == -1) fail(data_file);
    free(block);
}

static int work(void) {
    if (command) {
        execvp(command[0], command);
        fail(command[0]);
    }
    touch((long)touch_mib, MAP_PRIVATE);
    touch((long)shm_mib, MAP_SHARED);
    transfer((long)write_mib, O_WRONLY | O_CREAT);
    transfer((long)read_mib, O_RDONLY);
    for (int i = 0; i < forks; i++) fork_once();
    for (int i = 0; i < bursts; i++) {
        burst();
        pause_for(0.003);
    }
    run_threads();
    if (hold_secs > 0) pause_for(hold_secs);
    return (int)exit_status;
}

static const char *env(const char *name) {
    const char *v = getenv(name);
    return v ? v : "";
}

static long micros(struct timeval t) { return t.tv_sec * 1000000L + t.tv_usec; }

/* Returns a counter of /proc/self/io, which includes processes that were waited for; -1 if it cannot be read. */
static long io_counter(const char *name) {
    char line[100];
    long v = -1;
    FILE *f = fopen("/proc/self/io", "r");
    if (!f) return -1;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) v = atol(line + strlen(name));
    fclose(f);
    return v;
}

/* Writes the accounting to a temporary name and renames it, so that a reader never sees a part. */
static void report(const char *dir) {
    struct rusage self, children;
    char name[4096], temp[4200];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(name, sizeof name, "%s/%s-%s-%ld-%ld.json", dir, env("SLURM_JOB_ID"), env("SLURMD_NODENAME"), (long)getpid(), t.tv_nsec);
    snprintf(temp, sizeof temp, "%s.new", name);
    const long bytes_read = io_counter("read_bytes: "), bytes_written = io_counter("write_bytes: ");
    FILE *f = fopen(temp, "w");
    if (!f) fail(temp);
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    fprintf(f,
            "{\"job_id\":\"%s\",\"array_job_id\":\"%s\",\"array_task_id\":\"%s\",\"step\":\"%s\",\"task\":\"%s\",\"rank\":\"%s\",\"node\":\"%s\","
            "\"user_us\":%ld,\"system_us\":%ld,\"began_us\":%ld,\"touched_bytes\":%ld,"
            "\"read_bytes\":%ld,\"written_bytes\":%ld}\n",
            env("SLURM_JOB_ID"), env("SLURM_ARRAY_JOB_ID"), env("SLURM_ARRAY_TASK_ID"), env("SLURM_STEP_ID"), env("SLURM_LOCALID"), env("SLURM_PROCID"),
            env("SLURMD_NODENAME"), micros(self.ru_utime) + micros(children.ru_utime),
            micros(self.ru_stime) + micros(children.ru_stime), micros(began.ru_utime) + micros(began.ru_stime),
            *touched_bytes, bytes_read, bytes_written);
    if (fclose(f) != 0 || rename(temp, name) != 0) fail(name);
}

static int number_option(int argc, char **argv, int *i, const char *name, double *value) {
    if (strcmp(argv[*i], name) != 0) return 0;
    if (*i + 1 >= argc) {
        fprintf(stderr, "workload: %s needs a number\n", name);
        exit(2);
    }
    *value = atof(argv[++*i]);
    return 1;
}

static void options(int argc, char **argv) {
    static const struct { const char *name; double *value; } numbers[] = {
        {"--cpu", &cpu_secs}, {"--threads", &threads}, {"--forks", &forks}, {"--bursts", &bursts}, {"--touch", &touch_mib},
        {"--shm", &shm_mib}, {"--write", &write_mib}, {"--read", &read_mib}, {"--hold", &hold_secs}, {"--exit", &exit_status},
    };
    const int n = sizeof numbers / sizeof *numbers;
    for (int i = 1; i < argc; i++) {
        int k = 0;
        if (strcmp(argv[i], "--") == 0 && i + 1 < argc) {
            command = argv + i + 1;
            return;
        }
        if (strcmp(argv[i], "--file") == 0 && i + 1 < argc) {
            data_file = argv[++i];
            continue;
        }
        if (strcmp(argv[i], "--daemon") == 0 && i + 1 < argc) {
            daemon_dir = argv[++i];
            continue;
        }
        while (k < n && !number_option(argc, argv, &i, numbers[k].name, numbers[k].value)) k++;
        if (k == n) {
            fprintf(stderr, "workload: unknown argument %s\n", argv[i]);
            exit(2);
        }
    }
}

/* Does the work in a child, and waits for it. Returns the exit status. */
static int run(void) {
    int status;
    child = fork();
    if (child == -1) fail("fork");
    if (child == 0) {
        signal(SIGTERM, SIG_DFL);
        _exit(work());
    }
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR) fail("wait");
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Starts the daemon: the child of a child, which is not waited for. */
static int start_daemon(void) {
    int status;
    pid_t pid = fork();
    if (pid == -1) fail("fork");
    if (pid > 0) {
        if (waitpid(pid, &status, 0) == -1) fail("wait");
        return WEXITSTATUS(status);
    }
    setsid();
    pid = fork();
    if (pid == -1) fail("fork");
    if (pid > 0) _exit(0);
    memset(&began, 0, sizeof began); /* it never was slurmstepd */
    for (int fd = 0; fd < 3; fd++) close(fd); /* a reader of the job's output does not wait for it */
    if (open("/dev/null", O_RDWR) != 0 || dup(0) != 1 || dup(0) != 2) _exit(125);
    status = run();
    report(daemon_dir);
    _exit(status);
}

int main(int argc, char **argv) {
    char dir[4096] = "";
    struct sigaction act = {.sa_handler = forward};

    getrusage(RUSAGE_SELF, &began);
    options(argc, argv);
    snprintf(dir, sizeof dir, "%s", env("RT_TRUTH"));
    unsetenv("RT_TRUTH"); /* a workload below this one is counted by this one */
    touched_bytes = mmap(NULL, sizeof *touched_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (touched_bytes == MAP_FAILED) fail("mmap");
    sigaction(SIGTERM, &act, NULL);
    const int status = daemon_dir ? start_daemon() : run();
    if (*dir) report(dir);
    return status;
}
