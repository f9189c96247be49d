/* load SECONDS MIB: allocates MIB on GPU 0, prints "ready PID", and fills the memory again and again for
 * SECONDS. The driver's library is loaded at run time: the program needs no CUDA to be built.
 * Exit status 77: there is no usable GPU. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef int (*init_f)(unsigned);
typedef int (*get_f)(int *, int);
typedef int (*create_f)(void **, unsigned, int);
typedef int (*alloc_f)(unsigned long long *, size_t);
typedef int (*fill_f)(unsigned long long, unsigned, size_t);
typedef int (*sync_f)(void);

static void *lib;

static void *symbol(const char *name) {
	void *f = dlsym(lib, name);
	if (f == NULL) {
		fprintf(stderr, "load: %s\n", dlerror());
		exit(77);
	}
	return f;
}

static void check(const char *what, int result) {
	if (result != 0) {
		fprintf(stderr, "load: %s: CUDA error %d\n", what, result);
		exit(77);
	}
}

int main(int argc, char **argv) {
	if (argc != 3) {
		fprintf(stderr, "usage: load SECONDS MIB\n");
		return 2;
	}
	lib = dlopen("libcuda.so.1", RTLD_NOW);
	if (lib == NULL) {
		fprintf(stderr, "load: %s\n", dlerror());
		return 77;
	}
	size_t bytes = strtoull(argv[2], NULL, 10) << 20;
	int device;
	void *context;
	unsigned long long memory;
	check("cuInit", ((init_f)symbol("cuInit"))(0));
	check("cuDeviceGet", ((get_f)symbol("cuDeviceGet"))(&device, 0));
	check("cuCtxCreate", ((create_f)symbol("cuCtxCreate_v2"))(&context, 0, device));
	check("cuMemAlloc", ((alloc_f)symbol("cuMemAlloc_v2"))(&memory, bytes));
	fill_f fill = (fill_f)symbol("cuMemsetD32_v2");
	sync_f sync = (sync_f)symbol("cuCtxSynchronize");
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (time_t end = time(NULL) + atoi(argv[1]); time(NULL) < end;) {
		for (int i = 0; i < 100; i++)
			check("cuMemsetD32", fill(memory, 0x5a5a5a5a, bytes / 4));
		check("cuCtxSynchronize", sync());
	}
	return 0;
}
