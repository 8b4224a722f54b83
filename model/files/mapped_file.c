#include "model/files/mapped_file.h"

#include "base/huge_memory.h"
#include "base/regular_file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/* OK also if the file is shorter than that. */
static enum status fill(int descriptor, uint8_t *data, size_t bytes, size_t *n_out)
{
    size_t n = 0;
    while (n < bytes) {
        const ssize_t more = pread(descriptor, data + n, bytes - n, (off_t)n);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return errno_status(errno);
        if (more == 0)
            break;
        n += (size_t)more;
    }
    *n_out = n;
    return STATUS_OK;
}

static enum status read_whole(int descriptor, uint8_t *data, size_t bytes, const char *name,
                              struct error *error)
{
    struct stat before = {0}, after = {0};
    size_t n = 0;
    enum status status = fstat(descriptor, &before) == 0 ? fill(descriptor, data, bytes, &n)
                                                         : errno_status(errno);
    if (status == STATUS_OK && fstat(descriptor, &after) != 0)
        status = errno_status(errno);
    if (status != STATUS_OK)
        return error_set(error, status, "%.200s: %s", name, strerror(errno));
    if (n < bytes || !regular_file_is_same(&before, &after))
        return error_set(error, STATUS_IO_FAILED,
                         "%.200s was written while it was read: try again when it is complete",
                         name);
    return STATUS_OK;
}

enum status mapped_file_read(int descriptor, size_t bytes, const char *name,
                             struct mapped_file *file_out, struct error *error)
{
    struct mapped_file file = {NULL, bytes};
    if (bytes > 0) {
        void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED)
            return error_set(error, STATUS_NO_MEMORY, "no memory for the %zu bytes of %.200s",
                             bytes, name);
        file.data = data;
        const enum status status = read_whole(descriptor, data, bytes, name, error);
        if (status != STATUS_OK) {
            mapped_file_close(&file);
            return status;
        }
    }
    *file_out = file;
    return STATUS_OK;
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
