#include "process/ports/ports_file.h"

#include "base/json_text.h"
#include "base/regular_file.h"
#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORTS_FILE_BYTES_MAX 8192 /* more than ports_file_write ever writes */

/* Replaces bytes that JSON cannot have: a text that was cut may end inside a character. NULL: no
 * memory. */
static json_t *text_json(const char *text)
{
    char clean[PORTS_UNSEEN_MAX];
    assert(strlen(text) < sizeof clean && "the longest of a struct ports has room");
    utf8_clean(text, strlen(text), clean, sizeof clean);
    return json_string(clean);
}

static json_t *ports_json(const struct ports *ports)
{
    char incarnation[20];
    snprintf(incarnation, sizeof incarnation, "%016" PRIx64, ports->incarnation);
    return json_pack("{s:o, s:o, s:I, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "role",
                     text_json(ports->role), "name", text_json(ports->name), "pid",
                     (json_int_t)ports->pid, "incarnation", incarnation, "ready", ports->is_ready,
                     "grpc", text_json(ports->grpc), "http", text_json(ports->http), "engine",
                     text_json(ports->engine), "control", text_json(ports->control), "health",
                     text_json(ports->health), "metrics", text_json(ports->metrics), "unseen",
                     text_json(ports->unseen));
}

static bool write_all(FILE *file, const json_t *root)
{
    return json_dumpf(root, file, JSON_INDENT(2)) == 0 && putc('\n', file) != EOF;
}

/* Whether this process may write into the folder of path. */
static bool can_write_beside(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[4096] = ".";
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return access(folder, W_OK | X_OK) == 0;
}

enum status ports_file_check(const char *path, struct error *error)
{
    struct stat stat;
    if (!can_write_beside(path))
        return error_set(error, STATUS_IO_FAILED, "ports file %.200s: %s", path, strerror(errno));
    if (lstat(path, &stat) == 0 && !S_ISREG(stat.st_mode))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "ports file %.200s exists and is %s: it would be replaced", path,
                         S_ISLNK(stat.st_mode)   ? "a link"
                         : S_ISDIR(stat.st_mode) ? "a folder"
                                                 : "no regular file");
    return STATUS_OK;
}

/* A file that a killed process with the same id has left is removed first; an existing link is not
 * followed. */
static FILE *create(const char *path)
{
    unlink(path);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    if (descriptor >= 0 && !file) {
        close(descriptor);
        unlink(path);
    }
    return file;
}

enum status ports_file_write(const char *path, const struct ports *ports, struct error *error)
{
    char temporary[4096];
    int n = snprintf(temporary, sizeof temporary, "%s.%ld.new", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary)
        return error_set(error, STATUS_INVALID_ARGUMENT, "ports file %.60s...: path too long",
                         path);
    TRY(ports_file_check(path, error));
    json_t *root = ports_json(ports);
    if (!root)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the ports file %.200s", path);
    FILE *file = create(temporary);
    if (!file) {
        json_decref(root);
        return error_set(error, STATUS_IO_FAILED, "ports file %.200s: %s", temporary,
                         strerror(errno));
    }
    bool is_written = write_all(file, root);
    is_written = fclose(file) == 0 && is_written;
    json_decref(root);
    if (!is_written || rename(temporary, path) != 0) {
        enum status status = error_set(error, STATUS_IO_FAILED, "ports file %.200s: %s", path,
                                       strerror(errno));
        unlink(temporary);
        return status;
    }
    return STATUS_OK;
}

void ports_file_remove(const char *path)
{
    if (ports_file_check(path, NULL) == STATUS_OK)
        unlink(path);
}

/* False: missing, not a string, or too long. */
static bool read_text(const json_t *root, const char *key, char *text_out, size_t text_bytes)
{
    const char *text = json_string_value(json_object_get(root, key));
    if (!text || strlen(text) >= text_bytes)
        return false;
    memcpy(text_out, text, strlen(text) + 1);
    return true;
}

static bool read_pid(const json_t *root, uint32_t *pid_out)
{
    const json_t *pid = json_object_get(root, "pid");
    json_int_t value = json_integer_value(pid);
    *pid_out = (uint32_t)value;
    return json_is_integer(pid) && value >= 0 && value <= UINT32_MAX;
}

static bool read_incarnation(const json_t *root, uint64_t *incarnation_out)
{
    char text[17], *end;
    if (!read_text(root, "incarnation", text, sizeof text) || !text[0])
        return false;
    *incarnation_out = strtoull(text, &end, 16);
    return *end == '\0';
}

#define READ_TEXT(root, ports, key) read_text((root), #key, (ports)->key, sizeof(ports)->key)

static bool read_all(const json_t *root, struct ports *ports_out)
{
    const json_t *is_ready = json_object_get(root, "ready");
    ports_out->is_ready = json_is_true(is_ready);
    return json_is_boolean(is_ready) && READ_TEXT(root, ports_out, role) &&
           READ_TEXT(root, ports_out, name) && read_pid(root, &ports_out->pid) &&
           read_incarnation(root, &ports_out->incarnation) && READ_TEXT(root, ports_out, grpc) &&
           READ_TEXT(root, ports_out, http) && READ_TEXT(root, ports_out, engine) &&
           READ_TEXT(root, ports_out, control) && READ_TEXT(root, ports_out, health) &&
           READ_TEXT(root, ports_out, metrics) && READ_TEXT(root, ports_out, unseen);
}

enum status ports_file_read(const char *path, struct ports *ports_out)
{
    char *text;
    size_t bytes;
    json_t *root = NULL;
    struct ports ports = {0};
    TRY(regular_file_read(path, PORTS_FILE_BYTES_MAX, &text, &bytes, NULL));
    enum status status = json_text_parse(text, bytes, path, 0, &root, NULL);
    free(text);
    if (status == STATUS_OK && !read_all(root, &ports))
        status = STATUS_CORRUPT;
    json_decref(root);
    if (status == STATUS_OK)
        *ports_out = ports;
    return status;
}
