#include "rpc/auth/key_file.h"

#include "base/random.h"
#include "base/regular_file.h"
#include "base/secret.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BASE64_CHARACTERS 44u /* of 32 bytes: the last one is padding */
#define DECODED_BYTES     33u /* EVP_DecodeBlock also counts the zero of the padding */
#define FILE_BYTES_MAX    4096u

enum status key_set_draw(struct key_set *keys_out, struct error *error)
{
    struct key_set keys = {.n = 1};
    TRY(random_secret(keys.keys[0], sizeof keys.keys[0], error));
    *keys_out = keys;
    key_set_wipe(&keys);
    return STATUS_OK;
}

void key_set_wipe(struct key_set *keys)
{
    secret_wipe(keys, sizeof *keys);
}

void key_line_format(const struct key_set *keys, char line_out[KEY_LINE_BYTES])
{
    unsigned char text[BASE64_CHARACTERS + 1];
    assert(keys->n > 0);
    EVP_EncodeBlock(text, keys->keys[0], (int)CLUSTER_KEY_BYTES);
    snprintf(line_out, KEY_LINE_BYTES, "%s\n", (const char *)text);
    secret_wipe(text, sizeof text);
}

/* The text must equal the output of EVP_EncodeBlock for 32 bytes: EVP_DecodeBlock alone would skip
 * blanks. */
static bool decode_line(const char *line, size_t bytes, uint8_t key_out[CLUSTER_KEY_BYTES])
{
    unsigned char decoded[DECODED_BYTES], again[BASE64_CHARACTERS + 1];
    bool is_key = bytes == BASE64_CHARACTERS &&
                  EVP_DecodeBlock(decoded, (const unsigned char *)line, (int)bytes) ==
                      (int)DECODED_BYTES;
    if (is_key) {
        EVP_EncodeBlock(again, decoded, (int)CLUSTER_KEY_BYTES);
        is_key = secret_equal(again, line, BASE64_CHARACTERS);
    }
    if (is_key)
        memcpy(key_out, decoded, CLUSTER_KEY_BYTES);
    secret_wipe(decoded, sizeof decoded);
    secret_wipe(again, sizeof again);
    return is_key;
}

static bool decode_all(const char *text, size_t bytes, struct key_set *keys)
{
    while (bytes > 0 && keys->n < CLUSTER_KEYS_MAX) {
        const char *end = memchr(text, '\n', bytes);
        size_t length = end ? (size_t)(end - text) : bytes;
        if (!decode_line(text, length, keys->keys[keys->n]))
            return false;
        keys->n++;
        length += end != NULL;
        text += length;
        bytes -= length;
    }
    bool is_twice = keys->n == 2 && secret_equal(keys->keys[0], keys->keys[1], CLUSTER_KEY_BYTES);
    return keys->n > 0 && bytes == 0 && !is_twice;
}

enum status key_file_parse(const char *text, size_t bytes, const char *name,
                           struct key_set *keys_out, struct error *error)
{
    struct key_set keys = {.n = 0};
    bool is_good = decode_all(text, bytes, &keys);
    if (is_good)
        *keys_out = keys;
    key_set_wipe(&keys);
    if (is_good)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT,
                     "%.200s is not a cluster key: one line, or two different ones, of 32 bytes in "
                     "base64 (`kvferry key FILE` makes it)",
                     name);
}

enum status key_file_read(const char *path, struct key_set *keys_out, struct error *error)
{
    char *text;
    size_t bytes;
    TRY(regular_file_read(path, FILE_BYTES_MAX, &text, &bytes, error));
    enum status status = key_file_parse(text, bytes, path, keys_out, error);
    secret_wipe(text, bytes);
    free(text);
    return status;
}

static bool write_line(int descriptor, const struct key_set *keys)
{
    char line[KEY_LINE_BYTES];
    key_line_format(keys, line);
    ssize_t n = write(descriptor, line, strlen(line));
    bool is_written = n == (ssize_t)strlen(line) && fchmod(descriptor, 0600) == 0 &&
                      fsync(descriptor) == 0;
    secret_wipe(line, sizeof line);
    return is_written;
}

/* link() does not replace an existing file. */
enum status key_file_make(const char *path, const struct key_set *keys, struct error *error)
{
    char temporary[4096];
    int n = snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof temporary)
        return error_set(error, STATUS_IO_FAILED, "%.60s...: path too long", path);
    int descriptor = mkostemp(temporary, O_CLOEXEC);
    if (descriptor < 0)
        return error_set(error, STATUS_IO_FAILED, "%.200s: %s", path, strerror(errno));
    bool is_made = write_line(descriptor, keys) && link(temporary, path) == 0;
    int reason = errno;
    close(descriptor);
    unlink(temporary);
    if (is_made)
        return STATUS_OK;
    if (reason == EEXIST)
        return error_set(error, STATUS_DUPLICATE_REQUEST,
                         "%.200s exists already and is not replaced", path);
    return error_set(error, STATUS_IO_FAILED, "%.200s: %s", path, strerror(reason));
}
