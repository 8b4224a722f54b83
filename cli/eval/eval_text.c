#include "cli/eval/eval_text.h"

#include "base/regular_file.h"
#include "tokenizer/token_decoder.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

static enum status find_bos(struct eval_text *text, struct error *error)
{
    const struct encode_input nothing = {.text = "", .add_special = true};
    const uint32_t bos = tokenizer_special_ids(text->tokenizer).bos;
    uint32_t ids[64];
    struct token_buffer around = {.ids = ids, .ids_max = sizeof ids / sizeof *ids};

    TRY(tokenizer_encode(text->tokenizer, &nothing, &around, error));
    text->bos = around.n_ids > 0 && ids[0] == bos ? bos : TOKEN_NONE;
    return STATUS_OK;
}

/* Counted first, then taken. */
static enum status encode(const struct tokenizer *tokenizer, const struct eval_text *text,
                          struct error *error, uint32_t **ids_out, size_t *n_ids_out)
{
    const struct encode_input input = {.text = text->bytes, .text_bytes = text->n_bytes};
    struct token_buffer tokens = {0};

    TRY(tokenizer_encode(tokenizer, &input, &tokens, error));
    *ids_out = malloc((tokens.n_ids + 1) * sizeof **ids_out);
    if (!*ids_out)
        return STATUS_NO_MEMORY;
    tokens = (struct token_buffer){.ids = *ids_out, .ids_max = tokens.n_ids};
    TRY(tokenizer_encode(tokenizer, &input, &tokens, error));
    *n_ids_out = tokens.n_ids;
    return STATUS_OK;
}

enum status eval_text_read(const char *folder, const char *path, uint64_t tokens_max,
                           struct error *error, struct eval_text *text_out)
{
    *text_out = (struct eval_text){.folder = folder, .path = path};
    if (!path[0])
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "text is not set: which file shall be predicted? (--text FILE)");
    TRY(regular_file_read(path, TOKENIZER_TEXT_BYTES_MAX, &text_out->bytes, &text_out->n_bytes,
                          error));
    TRY(tokenizer_load(folder, error, &text_out->tokenizer));
    TRY(find_bos(text_out, error));
    TRY(encode(text_out->tokenizer, text_out, error, &text_out->ids, &text_out->n_ids));
    text_out->n_all = text_out->n_ids;
    if (tokens_max > 0 && text_out->n_ids > tokens_max)
        text_out->n_ids = (size_t)tokens_max;
    if (text_out->n_ids + (text_out->bos != TOKEN_NONE) < 2)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%.200s has %zu tokens, which is too few to predict one", path,
                         text_out->n_ids);
    return STATUS_OK;
}

void eval_text_finish(struct eval_text *text)
{
    tokenizer_destroy(text->tokenizer);
    free(text->bytes);
    free(text->ids);
    *text = (struct eval_text){0};
}

uint32_t eval_text_window(const struct eval_text *text, size_t at, uint32_t window_tokens,
                          uint32_t *window_out)
{
    const bool has_bos = text->bos != TOKEN_NONE;
    const size_t n_left = text->n_ids - at;
    const uint32_t room = window_tokens - has_bos, n = n_left < room ? (uint32_t)n_left : room;
    if (has_bos)
        window_out[0] = text->bos;
    memcpy(window_out + has_bos, text->ids + at, n * sizeof *text->ids);
    return n;
}

enum status eval_text_check(const struct eval_text *text, const char *folder, struct error *error)
{
    struct tokenizer *tokenizer;
    uint32_t *ids = NULL;
    size_t n_ids = 0;

    TRY(tokenizer_load(folder, error, &tokenizer));
    enum status status = encode(tokenizer, text, error, &ids, &n_ids);
    tokenizer_destroy(tokenizer);
    if (status == STATUS_OK &&
        (n_ids != text->n_all || memcmp(ids, text->ids, n_ids * sizeof *ids) != 0))
        status = error_set(
            error, STATUS_INVALID_ARGUMENT,
            "the tokenizer of %.200s gives this text other tokens than that of %.200s", folder,
            text->folder);
    free(ids);
    return status;
}

enum status eval_text_fits(const struct eval_text *text, uint32_t vocabulary, struct error *error)
{
    for (size_t i = 0; i < text->n_ids; i++)
        if (text->ids[i] >= vocabulary)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "the text has the token %u, the model those below %u", text->ids[i],
                             vocabulary);
    return STATUS_OK;
}
