#include "tests/gpu/host_memory.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_BYTES    4096u
#define DEVICE_MAP    2u   /* CU_MEMHOSTREGISTER_DEVICEMAP */
#define ALREADY_THERE 712u /* CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED */

/* Two calls of the driver that the product has no use for; it is open already, by device_open. */
static unsigned (*map)(void *base, size_t bytes, unsigned flags);
static unsigned (*unmap)(void *base);

static void find_calls(void)
{
    void *library = map ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (map)
        return;
    *(void **)&map = library ? dlsym(library, "cuMemHostRegister_v2") : NULL;
    *(void **)&unmap = library ? dlsym(library, "cuMemHostUnregister") : NULL;
    if (map && unmap)
        return;
    fprintf(stderr, "this driver maps no memory of the host\n");
    exit(1);
}

/* The whole pages that hold it. */
static void *pages_of(const void *base, size_t *bytes)
{
    uintptr_t first = (uintptr_t)base / PAGE_BYTES * PAGE_BYTES;
    uintptr_t end = ((uintptr_t)base + *bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    *bytes = end - first;
    return (void *)first;
}

void host_memory_adopt(struct device *device, const void *base, size_t bytes)
{
    (void)device;
    if (bytes == 0)
        return;
    find_calls();
    void *pages = pages_of(base, &bytes);
    unsigned code = map(pages, bytes, DEVICE_MAP);
    if (code == 0 || code == ALREADY_THERE)
        return;
    fprintf(stderr, "%zu bytes of the host's memory could not be mapped: error %u\n", bytes, code);
    exit(1);
}

void host_memory_disown(struct device *device, const void *base, size_t bytes)
{
    (void)device;
    if (bytes == 0 || !unmap)
        return;
    (void)unmap(pages_of(base, &bytes)); /* or it was never mapped */
}
