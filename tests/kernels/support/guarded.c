#include "tests/kernels/support/guarded.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct guarded guarded_create(size_t bytes)
{
    const size_t page = GUARD_BYTES;
    assert(sysconf(_SC_PAGESIZE) == GUARD_BYTES);
    size_t used = (bytes + page - 1) / page * page;
    char *map = mmap(NULL, used + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(map != MAP_FAILED);
    int status = mprotect(map + used, page, PROT_NONE);
    assert(status == 0);
    (void)status;
    memset(map, 0xff, used);
    return (struct guarded){.data = map + used - bytes, .map = map, .map_bytes = used + page};
}

void guarded_destroy(struct guarded *guarded)
{
    munmap(guarded->map, guarded->map_bytes);
}
