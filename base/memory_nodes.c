#include "base/memory_nodes.h"

#include <assert.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel reads one bit less than it is told. */
#define MASK_BITS (sizeof(unsigned long) * 8 + 1)

enum status memory_nodes_interleave(uint64_t nodes, struct error *error)
{
    unsigned long mask = (unsigned long)nodes;
    assert(nodes != 0);
    if (syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &mask, MASK_BITS) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "set_mempolicy(MPOL_INTERLEAVE): %s",
                     strerror(errno));
}
