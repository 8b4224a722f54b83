#include "process/ports_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORTS_FILE_BYTES_MAX 4096

/* Names and addresses hold no control characters: config and error_set see to it. */
static void write_text(FILE *file, const char *key, const char *value, const char *end)
{
    fprintf(file, "  \"%s\": \"", key);
    for (const char *at = value; *at; at++) {
        if (*at == '"' || *at == '\\')
            fputc('\\', file);
        if ((unsigned char)*at >= ' ')
            fputc(*at, file);
    }
    fprintf(file, "\"%s\n", end);
}

static void write_all(FILE *file, const struct ports *ports)
{
    char incarnation[20];
    snprintf(incarnation, sizeof incarnation, "%016" PRIx64, ports->incarnation);
    fputs("{\n", file);
    write_text(file, "role", ports->role, ",");
    write_text(file, "name", ports->name, ",");
    fprintf(file, "  \"pid\": %" PRIu32 ",\n", ports->pid);
    write_text(file, "incarnation", incarnation, ",");
    fprintf(file, "  \"ready\": %s,\n", ports->is_ready ? "true" : "false");
    write_text(file, "grpc", ports->grpc, ",");
    write_text(file, "control", ports->control, ",");
    write_text(file, "health", ports->health, ",");
    write_text(file, "metrics", ports->metrics, ",");
    write_text(file, "unseen", ports->unseen, "");
    fputs("}\n", file);
}

/* Of the folder that path lies in. */
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
                         "ports file %.200s is there, and is %s: it would be replaced", path,
                         S_ISLNK(stat.st_mode)   ? "a link"
                         : S_ISDIR(stat.st_mode) ? "a folder"
                                                 : "no regular file");
    return STATUS_OK;
}

/* What a killed process of the same id has left goes first; a link that stands there is not followed. */
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
    FILE *file = create(temporary);
    if (!file)
        return error_set(error, STATUS_IO_FAILED, "ports file %.200s: %s", temporary,
                         strerror(errno));
    write_all(file, ports);
    bool is_written = !ferror(file);
    is_written = fclose(file) == 0 && is_written;
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

/* The value after "key": of the text, unquoted; false when it is absent or too long. */
static bool find_value(const char *text, const char *key, char *value_out, size_t value_bytes)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\":", key);
    const char *at = strstr(text, quoted);
    if (!at)
        return false;
    at += strlen(quoted);
    at += strspn(at, " ");
    const char *ends = *at == '"' ? "\"\n" : ",\n"; /* of a text, of a number or a word */
    at += *at == '"';
    size_t n = 0;
    for (; *at && !strchr(ends, *at); at++) {
        if (*at == '\\')
            at++;
        if (n + 1 >= value_bytes)
            return false;
        value_out[n++] = *at;
    }
    value_out[n] = '\0';
    return true;
}

enum status ports_file_read(const char *path, struct ports *ports_out)
{
    char text[PORTS_FILE_BYTES_MAX];
    FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO_FAILED;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';

    struct ports ports = {0};
    char pid[16];
    char incarnation[32];
    char is_ready[8];
    bool is_whole = find_value(text, "role", ports.role, sizeof ports.role) &&
                    find_value(text, "name", ports.name, sizeof ports.name) &&
                    find_value(text, "pid", pid, sizeof pid) &&
                    find_value(text, "incarnation", incarnation, sizeof incarnation) &&
                    find_value(text, "ready", is_ready, sizeof is_ready) &&
                    find_value(text, "grpc", ports.grpc, sizeof ports.grpc) &&
                    find_value(text, "control", ports.control, sizeof ports.control) &&
                    find_value(text, "health", ports.health, sizeof ports.health) &&
                    find_value(text, "metrics", ports.metrics, sizeof ports.metrics) &&
                    find_value(text, "unseen", ports.unseen, sizeof ports.unseen);
    if (!is_whole)
        return STATUS_CORRUPT;
    ports.pid = (uint32_t)strtoul(pid, NULL, 10);
    ports.incarnation = strtoull(incarnation, NULL, 16);
    ports.is_ready = strcmp(is_ready, "true") == 0;
    *ports_out = ports;
    return STATUS_OK;
}
