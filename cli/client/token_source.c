#include "cli/client/token_source.h"

#include "base/regular_file.h"
#include "base/secret.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE       "KVFERRY_TOKEN"
#define FILE_BYTES_MAX 4096u

/* name: the source of the text. */
static enum status take(const char *text, const char *name, char value_out[TOKEN_VALUE_MAX],
                        struct error *error)
{
    static const char SCHEME[] = "Bearer ";
    size_t n = strlen(text);
    while (n > 0 && strchr("\r\n", text[n - 1]))
        n--;
    bool is_token = n > 0 && n < TOKEN_VALUE_MAX - sizeof SCHEME;
    for (size_t i = 0; i < n; i++)
        is_token = is_token && text[i] > 0x20 && text[i] < 0x7f;
    if (!is_token)
        return error_set(error, STATUS_CORRUPT,
                         "%s holds no token: one line of 1 to %zu printable characters", name,
                         TOKEN_VALUE_MAX - sizeof SCHEME - 1);
    int length = snprintf(value_out, TOKEN_VALUE_MAX, "%s%.*s", SCHEME, (int)n, text);
    assert(length > 0 && (size_t)length < TOKEN_VALUE_MAX);
    return STATUS_OK;
}

enum status token_source_read(const char *file, char value_out[TOKEN_VALUE_MAX],
                              struct error *error)
{
    const char *variable = getenv(VARIABLE);
    enum status status = STATUS_OK;
    value_out[0] = '\0';
    if (file[0]) {
        char *text = NULL;
        size_t bytes = 0;
        status = regular_file_read(file, FILE_BYTES_MAX, &text, &bytes, error);
        if (status == STATUS_OK)
            status = take(text, file, value_out, error);
        if (text)
            secret_wipe(text, bytes);
        free(text);
    } else if (variable && variable[0]) {
        status = take(variable, VARIABLE, value_out, error);
    }
    unsetenv(VARIABLE);
    return status;
}
