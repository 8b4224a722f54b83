#include "cli/client/prompt.h"

#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 160

static enum status check(const struct prompt *prompt, const char *name, struct error *error)
{
    if (prompt->bytes == 0)
        return error_set(error, STATUS_CORRUPT, "%s is empty", name);
    size_t at = utf8_first_invalid((const char *)prompt->data, prompt->bytes);
    if (at < prompt->bytes)
        return error_set(error, STATUS_CORRUPT, "%s is not UTF-8: byte %zu (of %zu) is 0x%02x",
                         name, at + 1, prompt->bytes, prompt->data[at]);
    return STATUS_OK;
}

/* On success prompt_out owns data; else it is freed. */
static enum status finish(struct prompt prompt, const char *name, struct prompt *prompt_out,
                          struct error *error)
{
    assert(prompt.data);
    enum status status = check(&prompt, name, error);
    if (status == STATUS_OK)
        *prompt_out = prompt;
    else
        free(prompt.data);
    return status;
}

static enum status read_all(FILE *file, const char *name, struct prompt *prompt_out,
                            struct error *error)
{
    uint8_t *data = malloc(PROMPT_BYTES_MAX + 2);
    if (!data)
        return STATUS_NO_MEMORY;
    size_t n = fread(data, 1, PROMPT_BYTES_MAX + 2, file);
    bool has_failed = ferror(file) != 0;
    int reason = errno;
    if (!has_failed && n > 0 && data[n - 1] == '\n')
        n--;
    if (has_failed || n > PROMPT_BYTES_MAX) {
        free(data);
        return has_failed ? error_set(error, STATUS_IO_FAILED, "cannot read %s: %s", name,
                                      strerror(reason))
                          : error_set(error, STATUS_PROMPT_TOO_LONG, "%s is over %u bytes", name,
                                      PROMPT_BYTES_MAX);
    }
    return finish((struct prompt){data, n}, name, prompt_out, error);
}

static enum status read_input(struct prompt *prompt_out, struct error *error)
{
    return read_all(stdin, "the prompt (standard input)", prompt_out, error);
}

static enum status read_file(const char *path, struct prompt *prompt_out, struct error *error)
{
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "the prompt (%.120s)", path);
    FILE *file = fopen(path, "re");
    if (!file)
        return error_set(error, STATUS_IO_FAILED, "cannot read %s: %s", name, strerror(errno));
    enum status status = read_all(file, name, prompt_out, error);
    fclose(file);
    return status;
}

static enum status copy_argument(const char *argument, struct prompt *prompt_out,
                                 struct error *error)
{
    char *copy = strdup(argument);
    if (!copy)
        return STATUS_NO_MEMORY;
    return finish((struct prompt){(uint8_t *)copy, strlen(copy)}, "the prompt", prompt_out, error);
}

enum status prompt_take(const struct prompt_source *source, struct prompt *prompt_out,
                        struct error *error)
{
    assert(source->file && "no file is an empty name");
    bool has_file = source->file[0] != '\0';
    if (source->argument && has_file)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the prompt is given twice: as an argument and with --prompt-file");
    const char *name = has_file ? source->file : source->argument;
    if (name && strcmp(name, "-") != 0)
        return has_file ? read_file(name, prompt_out, error)
                        : copy_argument(name, prompt_out, error);
    if (!name && isatty(STDIN_FILENO))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "the prompt is missing: give it as an argument in quotes, with "
                         "--prompt-file or through a pipe; - reads it from the terminal");
    return read_input(prompt_out, error);
}
