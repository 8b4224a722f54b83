#include "router/requests/bad_words.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bad_words_add(struct bad_words *words, const char *text, size_t bytes)
{
    assert(words->n < BAD_WORDS_MAX && bytes >= 1 && bytes <= BAD_WORD_BYTES_MAX);
    memcpy(words->text[words->n], text, bytes);
    words->bytes[words->n++] = (uint16_t)bytes;
}

/* What the words make. */
struct sequences {
    uint32_t n, n_ids;
    uint32_t lengths[BAD_SEQUENCES_MAX];
    uint32_t ids[BAD_SEQUENCES_MAX * BAD_SEQUENCE_IDS_MAX];
};

static bool is_known(const struct sequences *sequences, const uint32_t *ids, uint32_t n)
{
    const uint32_t *known = sequences->ids;
    for (uint32_t i = 0; i < sequences->n; known += sequences->lengths[i++])
        if (sequences->lengths[i] == n && memcmp(known, ids, n * sizeof *ids) == 0)
            return true;
    return false;
}

/* The ids lie behind those of the other sequences. */
static void keep(struct sequences *sequences, uint32_t n, uint32_t vocabulary)
{
    const uint32_t *ids = sequences->ids + sequences->n_ids;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] >= vocabulary)
            return;
    if (n == 0 || is_known(sequences, ids, n))
        return;
    assert(sequences->n < BAD_SEQUENCES_MAX);
    sequences->lengths[sequences->n++] = n;
    sequences->n_ids += n;
}

static enum status refuse(enum status status, uint32_t index, const char *why,
                          struct rpc_error *error)
{
    char field[32];
    snprintf(field, sizeof field, "sampling.bad_words[%u]", index);
    rpc_error_set(error, status, field, NULL, "%s: %s", field, why);
    return status;
}

static enum status add_sequence(struct sequences *sequences, const struct tokenizer *tokenizer,
                                const struct bad_words *words, uint32_t index,
                                const struct encode_input *input, struct rpc_error *error)
{
    struct token_buffer buffer = {.ids = sequences->ids + sequences->n_ids,
                                  .ids_max = BAD_SEQUENCE_IDS_MAX};
    struct error reason = {0};
    char why[64];
    const enum status status = tokenizer_encode(tokenizer, input, &buffer, &reason);
    if (status == STATUS_PROMPT_TOO_LONG) {
        snprintf(why, sizeof why, "%zu tokens; at most %u are taken", buffer.n_ids,
                 BAD_SEQUENCE_IDS_MAX);
        return refuse(STATUS_INVALID_ARGUMENT, index, why, error);
    }
    if (status != STATUS_OK)
        return refuse(status, index, reason.text[0] ? reason.text : status_text(status), error);
    keep(sequences, (uint32_t)buffer.n_ids, words->vocabulary);
    return STATUS_OK;
}

static enum status add_word(struct sequences *sequences, const struct tokenizer *tokenizer,
                            const struct bad_words *words, uint32_t index, struct rpc_error *error)
{
    char text[1 + BAD_WORD_BYTES_MAX] = " ";
    const char *word = words->text[index];
    size_t bytes = words->bytes[index], n_spaces = 0;
    while (n_spaces < bytes && word[n_spaces] == ' ')
        n_spaces++;
    const bool is_spaces = n_spaces == bytes;
    if (is_spaces)
        n_spaces = 0;
    memcpy(text + 1, word + n_spaces, bytes - n_spaces);
    struct encode_input input = {
        .text = text + 1, .text_bytes = bytes - n_spaces, .parse_special = true};
    TRY(add_sequence(sequences, tokenizer, words, index, &input, error));
    if (is_spaces)
        return STATUS_OK;
    input.text--;
    input.text_bytes++;
    return add_sequence(sequences, tokenizer, words, index, &input, error);
}

enum status bad_words_tokenize(const struct bad_words *words, const struct tokenizer *tokenizer,
                               const struct token_rules *others, struct token_rules **rules_out,
                               struct rpc_error *error)
{
    struct sequences *sequences = malloc(sizeof *sequences);
    enum status status = sequences ? STATUS_OK : STATUS_NO_MEMORY;
    struct token_rules rules = {0}, *copy = NULL;
    if (sequences)
        sequences->n = sequences->n_ids = 0;
    for (uint32_t i = 0; i < words->n && status == STATUS_OK; i++)
        status = add_word(sequences, tokenizer, words, i, error);
    if (others)
        rules = *others;
    if (status == STATUS_OK) {
        rules.n_bad = sequences->n;
        rules.bad_lengths = sequences->lengths;
        rules.n_bad_ids = sequences->n_ids;
        rules.bad_ids = sequences->ids;
        copy = token_rules_copy(&rules);
        status = copy ? STATUS_OK : STATUS_NO_MEMORY;
    }
    free(sequences);
    if (status == STATUS_OK)
        *rules_out = copy;
    return status;
}
