#include "cli/manifest.h"

#include "base/regular_file.h"
#include "base/sha256.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (1u << 20)
#define HEX_DIGITS  (2 * SHA256_BYTES)
#define NAME_OFFSET (HEX_DIGITS + 2)

/* ---- a file ---- */

static enum status add_all(int descriptor, void *piece, const char *name, struct sha256_sum *sum,
                           struct error *error)
{
    for (;;) {
        ssize_t n = read(descriptor, piece, PIECE_BYTES);
        if (n == 0)
            return STATUS_OK;
        if (n > 0)
            sha256_add(sum, piece, (size_t)n);
        else if (errno != EINTR)
            return error_set(error, STATUS_IO_FAILED, "%.200s: %s", name, strerror(errno));
    }
}

static enum status hash_file(const char *folder, const char *name, struct sha256 *hash_out,
                             struct error *error)
{
    int descriptor;
    size_t bytes;
    TRY(regular_file_open_in(folder, name, UINT64_MAX, &descriptor, &bytes, error));
    void *piece = malloc(PIECE_BYTES);
    enum status status = STATUS_NO_MEMORY;
    if (piece) {
        struct sha256_sum sum;
        sha256_begin(&sum);
        enum status read_status = add_all(descriptor, piece, name, &sum, error);
        status = sha256_end(&sum, hash_out);
        if (read_status != STATUS_OK)
            status = read_status;
    }
    free(piece);
    close(descriptor);
    return status;
}

/* ---- the list ---- */

/* line ends with a NUL. */
static enum status check_line(const char *path, uint32_t number, const char *line,
                              const char *folder, struct error *error)
{
    struct sha256 wanted, found;
    bool is_line = strlen(line) > NAME_OFFSET && line[HEX_DIGITS] == ' ' &&
                   (line[HEX_DIGITS + 1] == ' ' || line[HEX_DIGITS + 1] == '*') &&
                   sha256_parse(line, HEX_DIGITS, &wanted) == STATUS_OK;
    if (!is_line)
        return error_set(error, STATUS_CORRUPT,
                         "%.200s:%u: a line has 64 hex digits, two spaces and a file's name", path,
                         number);
    TRY(hash_file(folder, line + NAME_OFFSET, &found, error));
    if (!sha256_equal(&wanted, &found))
        return error_set(error, STATUS_CORRUPT, "%.200s differs from its digest in %.200s",
                         line + NAME_OFFSET, path);
    return STATUS_OK;
}

/* Replaces each line feed of text by a NUL. */
static enum status check_lines(const char *path, char *text, size_t bytes, const char *folder,
                               uint32_t *n_files_out, struct error *error)
{
    uint32_t number = 0;
    assert(text[bytes] == '\0'); /* ends a last line without a line feed */
    *n_files_out = 0;
    for (char *line = text, *next; line < text + bytes; line = next) {
        char *end = memchr(line, '\n', (size_t)(text + bytes - line));
        next = end ? end + 1 : text + bytes;
        if (end)
            *end = '\0';
        number++;
        if (line[0] == '\0')
            continue;
        TRY(check_line(path, number, line, folder, error));
        (*n_files_out)++;
    }
    if (*n_files_out == 0)
        return error_set(error, STATUS_CORRUPT, "%.200s names no file", path);
    return STATUS_OK;
}

static bool is_listed(const char *text, size_t bytes, const char *name)
{
    assert(text[bytes] == '\0');
    for (const char *line = text; line < text + bytes; line += strlen(line) + 1)
        if (strlen(line) > NAME_OFFSET && strcmp(line + NAME_OFFSET, name) == 0)
            return true;
    return false;
}

static bool is_read(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, ".json") == 0 || strcmp(dot, ".safetensors") == 0);
}

static enum status check_none_beside(const char *path, const char *text, size_t bytes,
                                     const char *folder, struct error *error)
{
    DIR *entries = opendir(folder);
    if (!entries)
        return error_set(error, STATUS_IO_FAILED, "%.200s: %s", folder, strerror(errno));
    enum status status = STATUS_OK;
    const struct dirent *entry;
    while (status == STATUS_OK && (entry = readdir(entries)))
        if (is_read(entry->d_name) && !is_listed(text, bytes, entry->d_name))
            status = error_set(error, STATUS_CORRUPT, "%.200s is not in %.200s", entry->d_name,
                               path);
    closedir(entries);
    return status;
}

enum status manifest_check(const char *path, const char *folder, uint32_t *n_files_out,
                           struct error *error)
{
    char *text;
    size_t bytes;
    TRY(regular_file_read(path, MANIFEST_BYTES_MAX, &text, &bytes, error));
    enum status status = check_lines(path, text, bytes, folder, n_files_out, error);
    if (status == STATUS_OK)
        status = check_none_beside(path, text, bytes, folder, error);
    free(text);
    return status;
}
