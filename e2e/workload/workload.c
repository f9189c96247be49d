/*
 * workload: a job of known size. It uses a given amount of CPU time, touches a
 * given amount of memory, and at its end writes the kernel's accounting
 * (getrusage) of itself and of every process that it waited for.
 *
 *   workload [--cpu SECONDS] [--touch MIB] [--hold SECONDS] [--exit STATUS] [-- COMMAND ARG...]
 *
 * A child does the work or runs COMMAND, so that an end by a signal, also that
 * of the OOM killer, is still reported. With RT_TRUTH=DIR in the environment, and
 * only for the outermost workload of a process tree, one JSON file appears in DIR.
 * SIGTERM is passed on to the child. The exit status is the child's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double cpu_secs, hold_secs;
static long touch_mib;
static int exit_status;
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

static double used_cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int work(void) {
    const long mib = 1 << 20, page = sysconf(_SC_PAGESIZE);
    if (command) {
        execvp(command[0], command);
        fail(command[0]);
    }
    for (long m = 0; m < touch_mib; m++) {
        char *block = mmap(NULL, mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) fail("mmap");
        for (long i = 0; i < mib; i += page) {
            block[i] = 1;
            *touched_bytes += page;
        }
    }
    volatile unsigned long x = 1;
    while (used_cpu() < cpu_secs)
        for (int i = 0; i < 100000; i++) x = x * 2862933555777941757UL + 3037000493UL;
    if (hold_secs > 0) {
        struct timespec t = {(time_t)hold_secs, (long)((hold_secs - (time_t)hold_secs) * 1e9)};
        while (nanosleep(&t, &t) == -1 && errno == EINTR) {}
    }
    return exit_status;
}

static const char *env(const char *name) {
    const char *v = getenv(name);
    return v ? v : "";
}

static long micros(struct timeval t) { return t.tv_sec * 1000000L + t.tv_usec; }

/* Writes the accounting to a temporary name and renames it, so that a reader never sees a part. */
static void report(const char *dir) {
    struct rusage self, children;
    char name[4096], temp[4200];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    snprintf(name, sizeof name, "%s/%s-%s-%ld-%ld.json", dir, env("SLURM_JOB_ID"), env("SLURMD_NODENAME"), (long)getpid(), t.tv_nsec);
    snprintf(temp, sizeof temp, "%s.new", name);
    FILE *f = fopen(temp, "w");
    if (!f) fail(temp);
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    fprintf(f,
            "{\"job_id\":\"%s\",\"array_job_id\":\"%s\",\"array_task_id\":\"%s\",\"step\":\"%s\",\"task\":\"%s\",\"node\":\"%s\","
            "\"user_us\":%ld,\"system_us\":%ld,\"began_us\":%ld,\"touched_bytes\":%ld}\n",
            env("SLURM_JOB_ID"), env("SLURM_ARRAY_JOB_ID"), env("SLURM_ARRAY_TASK_ID"), env("SLURM_STEP_ID"), env("SLURM_LOCALID"),
            env("SLURMD_NODENAME"), micros(self.ru_utime) + micros(children.ru_utime),
            micros(self.ru_stime) + micros(children.ru_stime), micros(began.ru_utime) + micros(began.ru_stime),
            *touched_bytes);
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
    double status = 0, touch = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0 && i + 1 < argc) {
            command = argv + i + 1;
            break;
        }
        if (!number_option(argc, argv, &i, "--cpu", &cpu_secs) && !number_option(argc, argv, &i, "--touch", &touch) &&
            !number_option(argc, argv, &i, "--hold", &hold_secs) && !number_option(argc, argv, &i, "--exit", &status)) {
            fprintf(stderr, "workload: unknown argument %s\n", argv[i]);
            exit(2);
        }
    }
    touch_mib = (long)touch;
    exit_status = (int)status;
}

int main(int argc, char **argv) {
    char dir[4096] = "";
    struct sigaction act = {.sa_handler = forward};
    int status;

    getrusage(RUSAGE_SELF, &began);
    options(argc, argv);
    snprintf(dir, sizeof dir, "%s", env("RT_TRUTH"));
    unsetenv("RT_TRUTH"); /* a workload below this one is counted by this one */
    touched_bytes = mmap(NULL, sizeof *touched_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (touched_bytes == MAP_FAILED) fail("mmap");
    sigaction(SIGTERM, &act, NULL);
    child = fork();
    if (child == -1) fail("fork");
    if (child == 0) {
        signal(SIGTERM, SIG_DFL);
        _exit(work());
    }
    while (waitpid(child, &status, 0) == -1)
        if (errno != EINTR) fail("wait");
    if (*dir) report(dir);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
