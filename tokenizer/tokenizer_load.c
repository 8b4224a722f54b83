/* Reading the files of a folder; their content is read by tokenizer_parts. */
#include "base/hash.h"
#include "base/hex.h"
#include "base/json_text.h"
#include "base/regular_file.h"
#include "tokenizer/files/config_tokens.h"
#include "tokenizer/files/field.h"
#include "tokenizer/files/mistral_fix.h"
#include "tokenizer/files/sentencepiece.h"
#include "tokenizer/files/tekken.h"
#include "tokenizer/tokenizer_parts.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>

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

/* The files of a folder; those that need not be there may be NULL. */
struct files {
    enum tokenizer_source source;
    const char *name; /* of the first one */
    const struct text_buffer *tokenizer;
    const struct text_buffer *config; /* tokenizer_config.json */
    const struct text_buffer
        *model_config; /* config.json, where only what becomes of the pattern is read */
};

/* All are the caller's. */
struct documents {
    json_t *tokenizer, *config, *model_config;
};

/* What another file than tokenizer.json says, in its words. */
static enum status translate(const struct files *files, struct error *error,
                             struct documents *documents)
{
    json_t *tokenizer = NULL, *config = NULL, *root = NULL;
    enum status status;

    if (files->source == TOKENIZER_SENTENCEPIECE) {
        status = sentencepiece_read(files->tokenizer->bytes, files->tokenizer->n_bytes, files->name,
                                    documents->config, error, &tokenizer, &config);
    } else {
        TRY(parse(files->tokenizer, files->name, error, &root));
        status = tekken_read(root, documents->config, error, &tokenizer, &config);
        json_decref(root);
    }
    if (status != STATUS_OK)
        return status;
    json_decref(documents->config);
    documents->config = config;
    documents->tokenizer = tokenizer;
    return STATUS_OK;
}

/* On failure the documents that were read are the caller's, too. */
static enum status parse_all(const struct files *files, struct error *error,
                             struct documents *documents)
{
    struct error ignored; /* config.json is judged by who needs the model */

    if (files->config)
        TRY(parse(files->config, "tokenizer_config.json", error, &documents->config));
    if (files->source == TOKENIZER_JSON)
        TRY(parse(files->tokenizer, files->name, error, &documents->tokenizer));
    else
        TRY(translate(files, error, documents));
    if (files->model_config &&
        parse(files->model_config, "config.json", &ignored, &documents->model_config) != STATUS_OK)
        documents->model_config = NULL;
    return STATUS_OK;
}

static enum status read_documents(struct tokenizer *tokenizer, const char *name,
                                  const struct documents *documents, struct error *error)
{
    struct field root = field_root(name, documents->tokenizer);
    struct field config = field_root("tokenizer_config.json", documents->config);

    TRY(mistral_fix_apply(documents->tokenizer, documents->config, documents->model_config));
    TRY(config_tokens_apply(documents->tokenizer, documents->config));
    TRY(tokenizer_parts_read(tokenizer, &root, error));
    return tokenizer_config_read(tokenizer, &config, error);
}

static enum status load_files(const struct files *files, struct error *error,
                              struct tokenizer **tokenizer_out)
{
    struct documents documents = {0};
    struct tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    if (!tokenizer)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a tokenizer");

    digest(files->tokenizer, tokenizer->digest);
    enum status status = parse_all(files, error, &documents);
    if (status == STATUS_OK)
        status = read_documents(tokenizer, files->name, &documents, error);
    json_decref(documents.tokenizer);
    json_decref(documents.config);
    json_decref(documents.model_config);
    if (status == STATUS_OK)
        *tokenizer_out = tokenizer;
    else
        tokenizer_destroy(tokenizer);
    return status;
}

/* In this order: the first that a folder has is read. */
static const struct source {
    const char *name;
    enum tokenizer_source source;
} SOURCES[] = {
    {"tokenizer.json", TOKENIZER_JSON},           {"tekken.json", TOKENIZER_TEKKEN},
    {"tokenizer.model", TOKENIZER_SENTENCEPIECE}, {"tokenizer.model.v3", TOKENIZER_SENTENCEPIECE},
    {"spiece.model", TOKENIZER_SENTENCEPIECE},
};
#define N_SOURCES (sizeof SOURCES / sizeof *SOURCES)

enum status tokenizer_load_bytes(enum tokenizer_source source, const struct text_buffer *file,
                                 const struct text_buffer *config, struct error *error,
                                 struct tokenizer **tokenizer_out)
{
    struct files files = {.source = source, .tokenizer = file, .config = config};

    for (size_t i = N_SOURCES; i-- > 0;)
        if (SOURCES[i].source == source)
            files.name = SOURCES[i].name;
    return load_files(&files, error, tokenizer_out);
}

/* Without any, what is wrong with the first one is said. */
static enum status read_source(const char *folder, struct error *error, struct text_buffer *file,
                               const struct source **source_out)
{
    enum status status = read_file(folder, SOURCES[0].name, error, file);
    struct error other;

    *source_out = &SOURCES[0];
    for (size_t i = 1; i < N_SOURCES && status == STATUS_NOT_FOUND; i++) {
        enum status found = read_file(folder, SOURCES[i].name, &other, file);
        if (found == STATUS_NOT_FOUND)
            continue;
        if (found != STATUS_OK)
            error_write(error, "%s", other.text);
        *source_out = &SOURCES[i];
        status = found;
    }
    return status;
}

/* *file_out->bytes stays NULL when it is not there. */
static enum status read_optional(const char *folder, const char *name, struct error *error,
                                 struct text_buffer *file_out)
{
    enum status status = read_file(folder, name, error, file_out);
    if (status != STATUS_NOT_FOUND)
        return status;
    error_write(error, "%s", ""); /* it need not be there */
    return STATUS_OK;
}

enum status tokenizer_load(const char *folder, struct error *error,
                           struct tokenizer **tokenizer_out)
{
    struct text_buffer file = {0}, config = {0}, model_config = {0};
    const struct source *source;
    struct error ignored;

    enum status status = read_source(folder, error, &file, &source);
    if (status == STATUS_OK)
        status = read_optional(folder, "tokenizer_config.json", error, &config);
    if (status == STATUS_OK) {
        struct files files = {.source = source->source,
                              .name = source->name,
                              .tokenizer = &file,
                              .config = config.bytes ? &config : NULL};
        if (read_optional(folder, "config.json", &ignored, &model_config) == STATUS_OK)
            files.model_config = model_config.bytes ? &model_config : NULL;
        status = load_files(&files, error, tokenizer_out);
    }
    free(file.bytes);
    free(config.bytes);
    free(model_config.bytes);
    malloc_trim(0); /* the parsed document is ten times what is kept */
    return status;
}

enum status tokenizer_digest_read(const char *folder, struct error *error,
                                  uint8_t digest_out[TOKENIZER_DIGEST_BYTES])
{
    struct text_buffer file = {0};
    const struct source *source;

    enum status status = read_source(folder, error, &file, &source);
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
