// This file lets the package declare functions without a body: see entersyscallblock.
