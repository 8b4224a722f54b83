#include "tests/gpu/host_memory.h"

#include <assert.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_BYTES 4096u
#define DEVICE_MAP 2u /* CU_MEMHOSTREGISTER_DEVICEMAP */

/* Calls of the driver that the product has no use for; it is open already, by device_open. */
static unsigned (*map)(void *base, size_t bytes, unsigned flags);
static unsigned (*unmap)(void *base);
static unsigned (*find_address)(unsigned long long *address_out, void *base, unsigned flags);

static void find_calls(void)
{
    void *library = map ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (map)
        return;
    *(void **)&map = library ? dlsym(library, "cuMemHostRegister_v2") : NULL;
    *(void **)&unmap = library ? dlsym(library, "cuMemHostUnregister") : NULL;
    *(void **)&find_address = library ? dlsym(library, "cuMemHostGetDevicePointer_v2") : NULL;
    if (map && unmap && find_address)
        return;
    fprintf(stderr, "this driver maps no memory of the host\n");
    exit(1);
}

static void must_be_done(unsigned code, const char *what, size_t bytes)
{
    if (code == 0)
        return;
    fprintf(stderr, "%zu bytes of the host's memory could not be %s: error %u\n", bytes, what,
            code);
    exit(1);
}

/* The whole pages that hold it: they are nobody else's, which the driver checks. */
static void *pages_of(const void *base, size_t *bytes)
{
    uintptr_t first = (uintptr_t)base / PAGE_BYTES * PAGE_BYTES;
    uintptr_t end = ((uintptr_t)base + *bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    *bytes = end - first;
    return (void *)first;
}

void host_memory_adopt(struct device *device, const void *base, size_t bytes)
{
    unsigned long long address = 0;
    (void)device;
    if (bytes == 0)
        return;
    find_calls();
    void *pages = pages_of(base, &bytes);
    must_be_done(map(pages, bytes, DEVICE_MAP), "mapped", bytes);
    must_be_done(find_address(&address, pages, 0), "found", bytes);
    if (address == (uintptr_t)pages)
        return;
    fprintf(stderr, "this device has memory of the host at addresses of its own\n");
    exit(1);
}

void host_memory_disown(struct device *device, const void *base, size_t bytes)
{
    (void)device;
    if (bytes == 0)
        return;
    void *pages = pages_of(base, &bytes);
    must_be_done(unmap(pages), "given back", bytes);
}
