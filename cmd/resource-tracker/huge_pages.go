package main

/*
#include <sys/prctl.h>

static int is_ours; // this program has disabled them, not its parent

__attribute__((constructor)) static void disable_huge_pages(void) { // the runtime makes its heap after it
	if (prctl(PR_GET_THP_DISABLE, 0UL, 0UL, 0UL, 0UL) == 0)
		is_ours = prctl(PR_SET_THP_DISABLE, 1UL, 0UL, 0UL, 0UL) == 0;
}

static void set_huge_pages(unsigned long enabled) {
	if (is_ours)
		prctl(PR_SET_THP_DISABLE, !enabled ? 1UL : 0UL, 0UL, 0UL, 0UL);
}
*/
import "C"

// withHugePages calls start, which starts the command. While start runs, this process has transparent huge pages enabled
// again, because the command inherits the setting, see PR_SET_THP_DISABLE of prctl(2). Where all programs use them, the
// default of several distributions, this program has 7 MiB resident with them and 4 without.
func withHugePages(start func() error) error {
	C.set_huge_pages(1)
	defer C.set_huge_pages(0)
	return start()
}
