/*
 * work: the processes of a job.
 *
 *     work PROCESSES
 *
 * The first four processes compute for a millisecond in each second
 * and keep a MiB of memory, the others sleep. SIGTERM ends all of them.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void compute(void)
{
	char *memory = calloc(1, 1 << 20);

	if (memory)
		memset(memory, 1, 1 << 20);
	for (;;) {
		double end = now() + 0.001;

		while (memory && now() < end)
			memset(memory, (int)end, 1 << 12);
		sleep(1);
	}
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0, i;
	pid_t parent = getpid();

	if (n <= 0) {
		fprintf(stderr, "usage: work PROCESSES\n");
		return 2;
	}
	for (i = 1; i < n; i++) {
		switch (fork()) {
		case -1:
			perror("fork");
			kill(0, SIGTERM);
			return 1;
		case 0:
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (getppid() != parent)
				return 1;
			if (i < 4)
				compute();
			for (;;)
				pause();
		}
	}
	compute();
}
