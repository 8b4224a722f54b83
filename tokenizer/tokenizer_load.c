/* Reading the two files of a folder; their content is read by tokenizer_parts. */
#include "base/hash.h"
#include "base/hex.h"
#include "base/json_text.h"
#include "base/regular_file.h"
#include "tokenizer/field.h"
#include "tokenizer/tokenizer_parts.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

/* The bytes are the caller's to free. */
static enum status read_file(const char *folder, const char *name, struct error *error,
                             struct text_buffer *file_out)
{
    return regular_file_read_in(folder, name, TOKENIZER_FILE_BYTES_MAX, &file_out->bytes,
                                &file_out->n_bytes, error);
}

static enum status parse(const struct text_buffer *file, const char *name, struct error *error,
                         json_t **root_out)
{
    return json_text_parse(file->bytes, file->n_bytes, name, JSON_ALLOW_NUL, root_out, error);
}

/* Most significant byte first, so that hexadecimal reads as the number does. */
static void digest(const struct text_buffer *file, uint8_t digest_out[TOKENIZER_DIGEST_BYTES])
{
    static const struct hash_key key = {"tokenizer.json"};
    struct hash128 hash = hash128_of(&key, file->bytes, file->n_bytes);

    for (unsigned i = 0; i < 8; i++) {
        digest_out[i] = (uint8_t)(hash.hi >> (56 - 8 * i));
        digest_out[8 + i] = (uint8_t)(hash.lo >> (56 - 8 * i));
    }
}

static enum status read_parts(struct tokenizer *tokenizer, const struct text_buffer *file,
                              struct error *error)
{
    json_t *root = NULL;

    TRY(parse(file, "tokenizer.json", error, &root));
    struct field field = field_root("tokenizer.json", root);
    enum status status = tokenizer_parts_read(tokenizer, &field, error);
    json_decref(root);
    return status;
}

static enum status read_config(struct tokenizer *tokenizer, const struct text_buffer *file,
                               struct error *error)
{
    json_t *root = NULL;

    if (file)
        TRY(parse(file, "tokenizer_config.json", error, &root));
    struct field field = field_root("tokenizer_config.json", root);
    enum status status = tokenizer_config_read(tokenizer, &field, error);
    json_decref(root);
    return status;
}

enum status tokenizer_load_bytes(const struct text_buffer *tokenizer_json,
                                 const struct text_buffer *config, struct error *error,
                                 struct tokenizer **tokenizer_out)
{
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a tokenizer");

    digest(tokenizer_json, tokenizer->digest);
    enum status status = read_parts(tokenizer, tokenizer_json, error);
    if (status != STATUS_OK)
        goto fail;
    status = read_config(tokenizer, config, error);
    if (status != STATUS_OK)
        goto fail;
    *tokenizer_out = tokenizer;
    return STATUS_OK;

fail:
    tokenizer_destroy(tokenizer);
    return status;
}

/* A folder of old has only SentencePiece's model. */
static enum status explain_missing(const char *folder, struct error *error)
{
    struct error ignored;
    int descriptor;
    size_t n_bytes;

    if (regular_file_open_in(folder, "tokenizer.model", TOKENIZER_FILE_BYTES_MAX, &descriptor,
                             &n_bytes, &ignored) != STATUS_OK)
        return STATUS_NOT_FOUND;
    close(descriptor);
    return error_set(error, STATUS_NOT_FOUND,
                     "%s has a tokenizer.model (SentencePiece) but no tokenizer.json: let "
                     "Transformers write one, AutoTokenizer.from_pretrained(folder)"
                     ".save_pretrained(folder)",
                     folder);
}

enum status tokenizer_load(const char *folder, struct error *error,
                           struct tokenizer **tokenizer_out)
{
    struct text_buffer file = {0};
    struct text_buffer config = {0};

    enum status status = read_file(folder, "tokenizer.json", error, &file);
    if (status == STATUS_NOT_FOUND)
        status = explain_missing(folder, error);
    if (status != STATUS_OK)
        goto done;
    status = read_file(folder, "tokenizer_config.json", error, &config);
    bool has_config = status == STATUS_OK;
    if (!has_config && status != STATUS_NOT_FOUND)
        goto done;
    if (!has_config)
        error_write(error, "%s", ""); /* it need not be there */
    status = tokenizer_load_bytes(&file, has_config ? &config : NULL, error, tokenizer_out);
done:
    free(file.bytes);
    free(config.bytes);
    malloc_trim(0); /* the parsed document is ten times what is kept */
    return status;
}

enum status tokenizer_digest_read(const char *folder, struct error *error,
                                  uint8_t digest_out[TOKENIZER_DIGEST_BYTES])
{
    struct text_buffer file = {0};

    enum status status = read_file(folder, "tokenizer.json", error, &file);
    if (status == STATUS_OK)
        digest(&file, digest_out);
    free(file.bytes);
    return status;
}

void tokenizer_digest_format(const uint8_t bytes[TOKENIZER_DIGEST_BYTES],
                             char text_out[TOKENIZER_DIGEST_TEXT])
{
    hex_format(bytes, TOKENIZER_DIGEST_BYTES, text_out);
}
