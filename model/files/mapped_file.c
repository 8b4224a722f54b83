#include "model/files/mapped_file.h"

#include "base/huge_memory.h"
#include "base/regular_file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static enum status map(int descriptor, size_t bytes, const char *name, struct mapped_file *file_out,
                       struct error *error)
{
    struct mapped_file file = {NULL, bytes};
    if (bytes > 0) {
        void *data = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (data == MAP_FAILED)
            return error_set(error, errno_status(errno), "%.200s: %s", name, strerror(errno));
        /* Where the file system has huge pages: with small ones a product whose weights come from memory is up to a sixth slower. */
        if (bytes >= HUGE_MEMORY_BYTES)
            (void)madvise(data, bytes, MADV_HUGEPAGE); /* a failure leaves small pages */
        file.data = data;
    }
    *file_out = file;
    return STATUS_OK;
}

enum status mapped_file_open(const char *folder, const char *name, uint64_t bytes_max,
                             struct mapped_file *file_out, struct error *error)
{
    int descriptor;
    size_t bytes;
    TRY(regular_file_open_in(folder, name, bytes_max, &descriptor, &bytes, error));
    enum status status = map(descriptor, bytes, name, file_out, error);
    close(descriptor);
    return status;
}

void mapped_file_give_back(const void *data, size_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)data + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)data + bytes) / page * page;
    if (end > first) /* a failure changes nothing */
        (void)madvise((void *)first, end - first, MADV_DONTNEED);
}

void mapped_file_close(struct mapped_file *file)
{
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->bytes);
    *file = (struct mapped_file){0};
}
