// A preloaded ptrace for User Mode Linux. Kernels before 6.16 save the registers of a process in a buffer of fixed
// size. A CPU with AMX has more registers, and refuses to restore them from the shorter buffer: the kernel panics with
// "ptrace set fp regs failed, errno = 14". This ptrace fills the rest with the registers that the process has.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

typedef long ptrace_function(int request, long pid, void *address, void *data);

static long restore(ptrace_function *next, long pid, struct iovec *saved)
{
	static char buffer[64 << 10];
	struct iovec whole = {buffer, sizeof buffer};

	if (next(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &whole) != 0)
		return -1;
	if (saved->iov_len < whole.iov_len) {
		memcpy(buffer, saved->iov_base, saved->iov_len);
		saved = &whole;
	}
	return next(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, saved);
}

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_function *next;
	va_list arguments;

	va_start(arguments, request);
	long pid = va_arg(arguments, long);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);
	if (!next)
		next = (ptrace_function *)dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE)
		return restore(next, pid, data);
	return next(request, pid, address, data);
}
